// The transport over TCP from the inside: streams cut at every byte, connections that end, and bad arguments.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "check.h"
#include "transport/harness.h"
#include "transport/memory/memory_transport.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/talk.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp_bytes.h"
#include "transport/threads/threads_mapper.h"

namespace tutti::transport {
namespace {

using testing::connect_local;
using testing::connect_loopback;
using testing::cut;
using testing::End;
using testing::framed;
using testing::nobody_settles;
using testing::one_piece;
using testing::put;
using testing::soon;
using testing::text_of;

TEST(TcpReceiver, TakesAMessageByteByByte) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver receiver = end.receiver();
  for (int message = 0; message < 3; ++message) {
    const std::string bytes = framed(text_of(40, message), 9);
    std::string text(40, '-');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      put(far, bytes.substr(i, 1));
      EXPECT_EQ(receiver.ready(), i + 1 >= sizeof(StreamHeader)) << "byte " << i;
      const Arrival arrival = receiver.try_receive(cut(text, {3, 0, 30, 1}), 40, 9);
      if (i + 1 <= sizeof(StreamHeader)) {
        EXPECT_EQ(arrival, Arrival::none) << "byte " << i;
      } else {
        EXPECT_EQ(arrival, i + 1 < bytes.size() ? Arrival::moved : Arrival::whole) << "byte " << i;
        EXPECT_EQ(text.substr(0, i + 1 - sizeof(StreamHeader)),
                  text_of(40, message).substr(0, i + 1 - sizeof(StreamHeader)));
      }
    }
    EXPECT_FALSE(receiver.ready());
  }
}

TEST(TcpReceiver, TakesManyMessagesThatCameAtOnce) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver receiver = end.receiver();
  std::string bytes;
  for (int message = 0; message < 50; ++message)
    bytes += framed(text_of(static_cast<std::size_t>(message * 37), message), 1);
  put(far, bytes);
  for (int message = 0; message < 50; ++message) {
    std::string text(static_cast<std::size_t>(message * 37), '-');
    ASSERT_TRUE(receiver.ready());
    ASSERT_EQ(receiver.try_receive(one_piece(text), text.size(), 1), Arrival::whole);
    ASSERT_EQ(text, text_of(text.size(), message));
  }
  EXPECT_FALSE(receiver.ready());
}

TEST(TcpReceiver, BringsWhatCameBeforeTheEndAndThenNothing) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver receiver = end.receiver();
  put(far, framed("last", 1) + framed("torn", 1).substr(0, sizeof(StreamHeader) + 2));
  far.reset();
  std::string text(4, '-');
  EXPECT_EQ(receiver.try_receive(one_piece(text), 4, 1), Arrival::whole);
  EXPECT_EQ(receiver.try_receive(one_piece(text), 4, 1), Arrival::moved);
  for (int look = 0; look < 3; ++look) EXPECT_EQ(receiver.try_receive(one_piece(text), 4, 1), Arrival::none);
  EXPECT_FALSE(receiver.ready());
  EXPECT_TRUE(end.connection.breakage().older_than(std::chrono::nanoseconds(0)));
}

TEST(TcpReceiver, RefusesALabelWithAnotherPayload) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver receiver = end.receiver();
  put(far, framed(std::string(kLabelBytes, 'l') + "four", 3));
  Label label;
  ASSERT_EQ(receiver.try_label(label, 4), Arrival::other);
  ASSERT_EQ(receiver.try_label(label, 3), Arrival::whole);
  std::string text(5, '-');
  EXPECT_EQ(receiver.try_receive_labelled(one_piece(text)[0]), Arrival::other);
  EXPECT_EQ(receiver.try_receive_labelled({reinterpret_cast<std::byte*>(text.data()), 4}), Arrival::whole);
  EXPECT_EQ(text, "four-");
}

// A clock that stands where the test puts it.
struct StandingClock {
  static inline std::chrono::nanoseconds at{0};
  static std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds> now() {
    return std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>(at);
  }
};

// Takes a batch, then asks for the next one until it may be read; how long that took.
std::chrono::nanoseconds time_held(Pace& pace, int messages) {
  pace.count_read();
  for (int i = 0; i < messages; ++i) pace.count_message();
  const std::chrono::nanoseconds start = StandingClock::at;
  while (pace.holds<StandingClock>()) StandingClock::at += std::chrono::nanoseconds(100);
  return StandingClock::at - start;
}

TEST(Pace, AMessageAloneIsNeverKeptWaiting) {
  Pace pace(&nobody_settles);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(time_held(pace, 1), std::chrono::nanoseconds(0));
}

TEST(Pace, AStreamIsReadInEverLargerBatchesUpToABound) {
  Pace pace(&nobody_settles);
  std::chrono::nanoseconds before{0};
  for (int i = 1; i <= 12; ++i) {
    const std::chrono::nanoseconds held = time_held(pace, 2 * i);
    EXPECT_GE(held, before);
    EXPECT_GT(held, std::chrono::nanoseconds(0));
    before = held;
  }
  EXPECT_EQ(before, std::chrono::microseconds(64));
}

TEST(Pace, WhereWaitingBringsNothingItEnds) {
  Pace pace(&nobody_settles);
  std::chrono::nanoseconds held{0};
  constexpr int kBatches = 2000;
  for (int i = 0; i < kBatches; ++i) held += time_held(pace, 2);  // pairs: what is answered before more can come
  EXPECT_LT(held, std::chrono::nanoseconds(100) * kBatches);
}

TEST(Pace, NobodySleepsOverWhatLiesUnread) {
  std::atomic<std::uint32_t> settling{0};
  Pace pace(&settling);
  pace.count_read();
  for (int i = 0; i < 2; ++i) pace.count_message();
  EXPECT_TRUE(pace.holds<StandingClock>());
  settling = 1;
  EXPECT_FALSE(pace.holds<StandingClock>());
}

TEST(TcpSender, KeepsWhatTheKernelDoesNotTake) {
  auto [near, far] = connect_local();
  const int small = 4096;
  ASSERT_EQ(::setsockopt(near.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  constexpr std::size_t kBytes = 200'000;
  End end(std::move(near)), other(std::move(far));
  TcpSender sender = end.sender(kBytes);
  TcpReceiver receiver = other.receiver();
  for (int message = 0; message < 5; ++message) {
    std::string text = text_of(kBytes, message), landed(kBytes, '-');
    ASSERT_TRUE(sender.has_credit());
    ASSERT_TRUE(sender.try_send(cut(text, {1, 0, 999}), kBytes, 4));
    EXPECT_FALSE(sender.try_flush());
    EXPECT_FALSE(sender.try_send(one_piece(text), kBytes, 4)) << "one credit";
    std::fill(text.begin(), text.end(), '!');
    const Deadline deadline = soon();
    for (Arrival arrival = Arrival::none; arrival != Arrival::whole;) {
      ASSERT_FALSE(deadline.passed());
      sender.try_flush();
      arrival = receiver.try_receive(cut(landed, {777, 0, 1}), kBytes, 4);
      ASSERT_NE(arrival, Arrival::other);
    }
    ASSERT_EQ(landed, text_of(kBytes, message));
    EXPECT_TRUE(sender.try_flush());
  }
}

TEST(TcpSender, TakesNothingWhenTheConnectionHasEnded) {
  auto [near, far] = connect_local();
  far.reset();
  End end(std::move(near));
  TcpSender sender = end.sender(100);
  std::string text = "lost";
  EXPECT_FALSE(sender.try_send(one_piece(text), 4, 1));
  EXPECT_FALSE(sender.has_credit());
  EXPECT_TRUE(end.connection.breakage().older_than(std::chrono::nanoseconds(0)));
}

// Whoever uses an edge before its connection is there finds it without credit, and misses nothing that comes with it.
TEST(TcpEdges, BeginWhenTheirConnectionIsMade) {
  auto [near, far] = connect_local();
  End end;
  TcpSender sender = end.sender(100);
  TcpReceiver receiver = end.receiver();
  std::string text = "what";
  EXPECT_FALSE(sender.has_credit());
  EXPECT_FALSE(sender.try_send(one_piece(text), 4, 1));
  EXPECT_TRUE(sender.try_flush()) << "nothing was taken";
  EXPECT_FALSE(receiver.ready());
  std::string landed(6, '-');
  EXPECT_EQ(receiver.try_receive(one_piece(landed), 6, 7), Arrival::none);
  EXPECT_FALSE(end.connection.breakage().noted());
  const std::string came = framed("answer", 7);
  const auto first = std::as_bytes(std::span(came)).first(sizeof(StreamHeader) + 2);
  end.connection.link(std::move(near), first, 0);
  EXPECT_EQ(receiver.hear(7), Arrival::whole);
  EXPECT_EQ(receiver.try_receive(one_piece(landed), 6, 7), Arrival::moved);
  put(far, came.substr(first.size()));
  EXPECT_EQ(receiver.try_receive(one_piece(landed), 6, 7), Arrival::whole);
  EXPECT_EQ(landed, "answer");
  EXPECT_TRUE(sender.try_send(one_piece(text), 4, 1));
}

// Memory that nobody may touch.
class Untouchable {
 public:
  explicit Untouchable(std::size_t bytes)
      : bytes_(bytes), memory_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Untouchable() { ::munmap(memory_, bytes_); }
  Piece piece() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::size_t bytes_;
  void* memory_;
};

TEST(TcpSender, ABufferThatIsNoMemoryIsTheCallersFault) {
  auto [near, far] = connect_loopback(AF_INET);
  End end(std::move(near));
  const Untouchable memory(64 << 10);
  TcpSender sender = end.sender(1 << 20);
  const Piece piece = memory.piece();
  const Error error = testing::error_of([&] { sender.try_send({&piece, 1}, piece.bytes, 1); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(std::string(error.what()).find("the buffer that this rank sends from"), 0u) << error.what();
  EXPECT_FALSE(end.connection.breakage().noted()) << "the connection has not ended";
}

TEST(TcpReceiver, ABufferThatIsNoMemoryIsTheCallersFault) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  const Untouchable memory(Connection::kAheadBytes);
  TcpReceiver receiver = end.receiver();
  const Piece piece = memory.piece();
  put(far, framed(std::string(piece.bytes, 'x'), 1).substr(0, sizeof(StreamHeader)));
  // Only the frame has come: what follows lands straight in the caller's memory.
  EXPECT_EQ(receiver.try_receive({&piece, 1}, piece.bytes, 1), Arrival::none);
  put(far, std::string(1000, 'x'));
  const Error error = testing::error_of([&] { receiver.try_receive({&piece, 1}, piece.bytes, 1); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(std::string(error.what()).find("the buffer that this rank receives into"), 0u) << error.what();
  EXPECT_FALSE(end.connection.breakage().noted()) << "the connection has not ended";
}

TEST(Breakage, TellsWhatTheNetworkDidFromWhatTheOtherEndMayHaveDone) {
  for (const auto& [number, loss] :
       {std::pair(0, Loss::reset), std::pair(ECONNRESET, Loss::reset), std::pair(ETIMEDOUT, Loss::unreachable),
        std::pair(EHOSTUNREACH, Loss::unreachable)}) {
    Breakage breakage;
    breakage.note(number);
    breakage.note(EPIPE);  // what follows from it
    EXPECT_EQ(breakage.loss(), loss) << std::strerror(number);
  }
}

// A control plane that has heard nothing, or only a goodbye.
class SilentControl final : public Control {
 public:
  explicit SilentControl(bool goodbye, Hooks* hooks = nullptr) : goodbye_(goodbye), hooks_(hooks) {}
  std::optional<Failure> failure() const override { return std::nullopt; }
  bool departed(int) const override { return goodbye_; }
  std::uint64_t left_at(int) const override { return goodbye_ ? ~std::uint64_t{0} : 0; }
  void abort(int, ErrorCode) override {}
  void lose(int peer, Loss) override { lost = peer; }
  void announce(std::uint32_t, const Statement&) override {}
  Statement announced(std::uint32_t, int) const override { return {}; }
  void attach(Hooks hooks) override {
    if (hooks_ != nullptr) *hooks_ = std::move(hooks);
  }

  int lost = -1;

 private:
  bool goodbye_;
  Hooks* hooks_;
};

StreamOptions options_for(int channels) {
  StreamOptions options;
  options.channels = channels;
  return options;
}

// With one connection for each channel.
TcpGroup group_with(int rank, int peer, std::vector<FileDescriptor> sockets) {
  TcpGroup group{{rank, {0, 1}, 0}, std::make_shared<Connections>(nullptr)};
  for (int channel = 0; channel < static_cast<int>(sockets.size()); ++channel)
    group.connections->add(peer, channel, std::move(sockets[static_cast<std::size_t>(channel)]));
  return group;
}

template <class... Sockets>
TcpGroup group_of_two(Sockets&&... sockets) {
  std::vector<FileDescriptor> all;
  (all.push_back(std::move(sockets)), ...);
  return group_with(0, 1, std::move(all));
}

TEST(TcpTransport, APeerWhoseConnectionBrokeIsNamedWhenTheControlPlaneStaysSilent) {
  for (const bool goodbye : {false, true}) {
    auto [near, far] = connect_loopback(AF_INET);
    auto control = std::make_unique<SilentControl>(goodbye);
    const SilentControl& heard = *control;
    TcpTransport transport(group_of_two(near), std::move(control), options_for(1));
    far.reset();
    EXPECT_FALSE(transport.failure()) << "nobody has touched the connection yet";
    std::optional<Failure> failure;
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(1)); !failure && !deadline.passed();) {
      transport.sleep(transport.prepare_sleep(), std::chrono::milliseconds(20));
      EXPECT_FALSE(transport.receiver(0, 1).ready());
      failure = transport.failure();
    }
    ASSERT_EQ(failure.has_value(), !goodbye);
    EXPECT_TRUE(!failure || (failure->rank == 1 && failure->died && failure->loss == Loss::reset));
    EXPECT_EQ(heard.lost, goodbye ? -1 : 1) << "the others are told";
  }
}

TEST(TcpTransport, TheControlPlaneIsToldHowLongAgoDataCame) {
  auto [near, far] = connect_loopback(AF_INET);
  auto [near_two, far_two] = connect_loopback(AF_INET);
  Control::Hooks hooks;
  TcpTransport transport(group_of_two(near, near_two), std::make_unique<SilentControl>(false, &hooks), options_for(2));
  ASSERT_TRUE(hooks.quiet_for);
  EXPECT_EQ(hooks.quiet_for(0), std::chrono::nanoseconds::max()) << "there is no connection to oneself";
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  const auto data_came_since = [&](auto moment) {
    const auto looked_at = now();
    return looked_at - hooks.quiet_for(1) > moment - std::chrono::milliseconds(50);
  };
  const Deadline deadline = soon();
  while (data_came_since(now() - std::chrono::milliseconds(100)) && !deadline.passed()) ::usleep(1000);
  const auto put_at = now();
  EXPECT_FALSE(data_came_since(put_at));
  put(far_two, "x");  // on any channel, read or not
  while (!data_came_since(put_at) && !deadline.passed()) ::usleep(1000);
  EXPECT_TRUE(data_came_since(put_at));
}

// A goodbye comes on another connection: what was sent before it may be held up for long, and still counts.
TEST(TcpTransport, AGoodbyeThatOvertakesMessagesDoesNotEndTheirEdge) {
  auto [near, far] = connect_loopback(AF_INET);
  auto [near_two, far_two] = connect_loopback(AF_INET);
  TcpTransport transport(group_of_two(near, near_two), std::make_unique<SilentControl>(true), options_for(2));
  EXPECT_TRUE(transport.departed(1));
  EXPECT_FALSE(transport.receiver(0, 1).ready());
  EXPECT_FALSE(transport.drained(0, 1)) << "its connection has not ended";
  far_two.reset();
  const auto drained = [&](int channel) {
    for (const Deadline deadline = soon(); !transport.drained(channel, 1) && !deadline.passed();) {
      transport.sleep(transport.prepare_sleep(), std::chrono::milliseconds(20));
      EXPECT_FALSE(transport.receiver(channel, 1).ready());
    }
    return transport.drained(channel, 1);
  };
  EXPECT_TRUE(drained(1));
  EXPECT_FALSE(transport.drained(0, 1)) << "each connection for itself";
  put(far, framed("late", 0));
  EXPECT_EQ(testing::Talk(transport, 0).receive(1, 4), "late");
  EXPECT_FALSE(transport.drained(0, 1));
  far.reset();
  EXPECT_TRUE(drained(0));
}

TEST(TcpTransport, WithoutAControlPlaneThereAreMessagesAndNoFailures) {
  auto [near, far] = connect_loopback(AF_INET);
  TcpTransport one(group_of_two(near), nullptr, options_for(1));
  std::vector<FileDescriptor> back;
  back.push_back(std::move(far));
  TcpTransport other(group_with(1, 0, std::move(back)), nullptr, options_for(1));
  testing::Talk(one, 0).send(1, "hello");
  EXPECT_EQ(testing::Talk(other, 0).receive(0, 5), "hello");
  one.abort(1, ErrorCode::timeout);
  one.announce(0);
  EXPECT_FALSE(one.failure() || other.failure() || other.given_up() || other.departed(0));
}

template <class Act>
std::string refusal(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TcpTransport, RefusesWhatItCannotDo) {
  auto [near, far] = connect_loopback(AF_INET);
  TcpTransport transport(group_of_two(near), nullptr, options_for(1));
  const std::string text(transport.offers().slot_bytes() + 1, 'x');
  EXPECT_EQ(refusal([&] { transport.sender(0, 0); }), "tcp: there is no connection to rank 0");
  EXPECT_NE(refusal([&] { testing::Talk(transport, 0).try_send(1, text); }), "");
  EXPECT_NE(refusal([&] { transport.sender(0, 1).try_begin(1); }), "");
  EXPECT_NE(refusal([&] { transport.receiver(0, 1).end(); }), "");
}

// Rank 0 of two that share memory, once rank 1 has left there; `told`: the control plane has said so, too.
bool drained_once_left(bool told) {
  auto mappers = make_threads_mappers(2);
  std::vector<std::unique_ptr<MixedTransport>> mixed(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      MixedTransport::Parts parts;
      parts.memory = memory_offers(2, true);
      parts.single_copy = false;
      parts.inner = std::make_unique<MemoryTransport>(std::move(mappers[static_cast<std::size_t>(rank)]),
                                                      MemoryUse(1, true), soon());
      TcpGroup group{{rank, {0, 1}, 0}, std::make_shared<Connections>(nullptr)};
      parts.outer =
          std::make_unique<TcpTransport>(std::move(group), std::make_unique<SilentControl>(told), options_for(1));
      mixed[static_cast<std::size_t>(rank)] = std::make_unique<MixedTransport>(std::move(parts), soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(mixed[0]->drained(0, 1));
  mixed[1].reset();
  return mixed[0]->drained(0, 1);
}

// Why it left the control plane says first: who looks at the memory alone may take it for one that made fewer calls.
TEST(Mixed, ANeighbourHasLeftOnlyWhenTheControlPlaneSaysSoToo) {
  EXPECT_FALSE(drained_once_left(false));
  EXPECT_TRUE(drained_once_left(true));
}

}  // namespace
}  // namespace tutti::transport
