// Groups that share a connection: none gets another's messages, waits for it longer than it must, or loses anything to
// it.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "transport/harness.h"
#include "transport/talk.h"
#include "transport/tcp/connections.h"
#include "transport/tcp_bytes.h"

namespace tutti::transport {
namespace {

using testing::connect_local;
using testing::End;
using testing::framed;
using testing::one_piece;
using testing::put;
using testing::said;
using testing::take;
using testing::text_of;
using Kind = StreamHeader::Kind;

// Receives `text` in one call, or says why not.
::testing::AssertionResult gets(TcpReceiver& receiver, const std::string& text, std::uint64_t fingerprint) {
  std::string landed(text.size(), '-');
  const Arrival arrival = receiver.try_receive(one_piece(landed), landed.size(), fingerprint);
  if (arrival != Arrival::whole) return ::testing::AssertionFailure() << "arrival " << static_cast<int>(arrival);
  return landed == text ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << landed;
}

TEST(Connection, EachGroupGetsItsOwnMessagesInOrder) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver one = end.receiver(1), two = end.receiver(2);
  put(far, framed("a", 7, 1) + framed("bb", 7, 2) + framed("ccc", 8, 1) + framed("", 9, 2) + framed("dd", 9, 1));
  EXPECT_TRUE(gets(two, "bb", 7));
  EXPECT_TRUE(gets(two, "", 9));
  EXPECT_FALSE(two.ready());
  EXPECT_TRUE(gets(one, "a", 7));
  std::string text(3, '-');
  EXPECT_EQ(one.try_receive(one_piece(text), 3, 9), Arrival::other);
  EXPECT_TRUE(gets(one, "ccc", 8));
  EXPECT_TRUE(gets(one, "dd", 9));
  EXPECT_FALSE(one.ready() || two.ready());
}

// Whoever sleeps for its message is woken by the one that has read it for itself in vain.
TEST(Connection, WhoFindsTheMessageOfAnotherWakesIt) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver one = end.receiver(1), two = end.receiver(2);
  put(far, framed("for two", 1, 2));
  const std::uint32_t before = end.bell.rings();
  EXPECT_FALSE(one.ready());
  EXPECT_NE(end.bell.rings(), before);
  // Behind a message of its own, too, which it does not take.
  EXPECT_TRUE(gets(two, "for two", 1));
  put(far, framed("for one", 1, 1) + framed("again", 2, 2));
  const std::uint32_t later = end.bell.rings();
  EXPECT_TRUE(one.ready());
  EXPECT_NE(end.bell.rings(), later);
  EXPECT_TRUE(gets(two, "again", 2));
  EXPECT_TRUE(gets(one, "for one", 1));
}

// A message that another thread reads on while it lands comes out whole.
TEST(Connection, AMessageMayBeReadByTurns) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver one = end.receiver(1), two = end.receiver(2);
  const std::string long_text = text_of(1000, 3), bytes = framed(long_text, 5, 1) + framed("two", 6, 2);
  std::string landed(1000, '-');
  Arrival arrival = Arrival::none;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    put(far, bytes.substr(i, 1));
    if (i % 3 == 0) static_cast<void>(two.ready());
    if (i % 7 == 0 && arrival != Arrival::whole) arrival = one.try_receive(one_piece(landed), 1000, 5);
  }
  if (arrival != Arrival::whole) arrival = one.try_receive(one_piece(landed), 1000, 5);
  EXPECT_EQ(arrival, Arrival::whole);
  EXPECT_EQ(landed, long_text);
  EXPECT_TRUE(gets(two, "two", 6));
}

TEST(Connection, WhatComesForAGroupThatIsNotThereYetWaitsForIt) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  TcpReceiver one = end.receiver(1);
  put(far, framed("early", 1, 2) + said(Kind::bye, 2) + framed("now", 1, 1));
  EXPECT_TRUE(gets(one, "now", 1));
  Stream& stream = end.connection.open(2);
  TcpReceiver two(end.connection, stream, &testing::nobody_settles);
  EXPECT_TRUE(gets(two, "early", 1));
  EXPECT_TRUE(end.connection.is_drained(stream, 5)) << "its sender has left meanwhile";
}

// What was on its way to a group that is gone here lands nowhere, and the others' messages behind it do.
TEST(Connection, AGroupThatIsGoneGetsNothingMore) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  Stream& stream = end.connection.open(1);
  std::string landed(10, '-');
  {
    TcpReceiver one(end.connection, stream, &testing::nobody_settles);
    put(far, framed("0123456789", 1, 1).substr(0, sizeof(StreamHeader) + 4));
    EXPECT_EQ(one.try_receive(one_piece(landed), 10, 1), Arrival::moved);
  }
  end.connection.close(stream);
  TcpReceiver two = end.receiver(2);
  put(far, "456789" + framed("more", 2, 1) + framed("two", 3, 2));
  EXPECT_TRUE(gets(two, "two", 3));
  EXPECT_EQ(landed, "0123------");
}

TEST(Connection, AByeFollowsTheLastMessageAndANewConnectionTellsOfEarlierOnes) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  Stream& stream = end.connection.open(1);
  TcpReceiver one(end.connection, stream, &testing::nobody_settles);
  EXPECT_FALSE(one.ready());
  EXPECT_FALSE(end.connection.is_drained(stream, 3)) << "it may have been there before the peer left";
  put(far, said(Kind::opened, 0, 2));
  EXPECT_FALSE(one.ready());
  EXPECT_FALSE(end.connection.is_drained(stream, 3)) << "it was: a bye will come";
  EXPECT_TRUE(end.connection.is_drained(stream, 2)) << "it was not";
  put(far, framed("last", 1, 1) + said(Kind::bye, 1));
  EXPECT_TRUE(gets(one, "last", 1));
  EXPECT_FALSE(one.ready());
  EXPECT_TRUE(end.connection.is_drained(stream, 3));
}

TEST(Connection, SaysByeOnceAndRemembersNothing) {
  auto [near, far] = connect_local();
  End end(std::move(near));
  EXPECT_EQ(take(far), said(Kind::opened, 0, 0));
  for (std::uint64_t group = 1; group <= 1000; ++group) {
    Stream& stream = end.connection.open(group);
    TcpReceiver other = end.receiver(0);
    const auto hear_bye = [&] {
      put(far, framed("late", 1, group) + said(Kind::bye, group));
      EXPECT_FALSE(other.ready());
    };
    end.connection.close(stream);
    if (group % 2 == 0) hear_bye();  // the other end may be the first to leave
    end.connection.leave(group, 0);
    EXPECT_EQ(take(far), said(Kind::bye, group));
    EXPECT_TRUE(end.connection.flush());
    if (group % 2 != 0) hear_bye();
    ASSERT_LE(end.connection.streams(), 1u);
  }
}

// Who has read ahead as much as it can, and sends on and on, misses nothing of what it has not taken.
TEST(Connection, WhoOnlySendsKeepsWhatHasCome) {
  auto [near, far] = connect_local();
  End end(std::move(near)), other(std::move(far));
  constexpr std::size_t kBytes = 64 << 10, kMessages = 20, kShort = 4000, kFirst = 100'000;
  TcpSender back = other.sender(kFirst), sender = end.sender(kBytes);
  TcpReceiver receiver = end.receiver(), taking = other.receiver();
  std::string first = text_of(kFirst, 9);
  ASSERT_TRUE(back.try_send(one_piece(first), kFirst, 9));
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    std::string text = text_of(kShort, static_cast<int>(message));
    ASSERT_TRUE(back.try_send(one_piece(text), kShort, message));
  }
  ASSERT_TRUE(gets(receiver, first, 9));  // and as much of the others with it as there is room for
  std::string text = text_of(kBytes, 1), landed(kBytes, '-');
  for (int message = 0; message < 80; ++message) {
    ASSERT_TRUE(sender.try_send(one_piece(text), kBytes, 7)) << message;
    while (taking.try_receive(one_piece(landed), kBytes, 7) != Arrival::whole) static_cast<void>(sender.try_flush());
  }
  EXPECT_FALSE(end.connection.breakage().noted());
  for (std::uint64_t message = 0; message < kMessages; ++message)
    EXPECT_TRUE(gets(receiver, text_of(kShort, static_cast<int>(message)), message));
}

// The one that leaves has sent more than the other's buffers hold, and the other has something to say meanwhile.
TEST(Connection, WhatWasSentArrivesWhateverTheOtherEndSays) {
  auto [near, far] = testing::connect_loopback(AF_INET);
  constexpr std::size_t kBytes = 1 << 20, kMessages = 4;
  std::atomic<bool> leaves{false};
  std::thread leaver([socket = std::move(near), &leaves]() mutable {
    Connections connections(nullptr);
    connections.add(1, 0, std::move(socket));
    Connection& connection = connections.with(1, 0);
    TcpSender sender(connection, connection.open(0), kBytes);
    std::string text = text_of(kBytes, 3);
    for (std::size_t message = 0; message < kMessages; ++message) {
      while (!sender.try_send(one_piece(text), kBytes, message)) {
      }
    }
    leaves = true;  // some of it may be kept: who leaves in good order flushes first
    while (!sender.try_flush()) {
    }
  });
  End end(std::move(far));
  Stream& stream = end.connection.open(0);
  TcpReceiver receiver(end.connection, stream, &testing::nobody_settles);
  std::string landed(kBytes, '-');
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    if (message == kMessages - 2) {
      while (!leaves) std::this_thread::yield();
      end.connection.leave(7, 0);  // says bye
      EXPECT_FALSE(end.connection.is_drained(stream, 5));
    }
    while (receiver.try_receive(one_piece(landed), kBytes, message) != Arrival::whole)
      ASSERT_FALSE(end.connection.is_drained(stream, 5)) << "lost with message " << message;
    EXPECT_EQ(landed, text_of(kBytes, 3));
  }
  leaver.join();
}

// One group's messages are not read; the other's are, however many are in between, and the memory they take is bounded.
TEST(Connection, AGroupThatIsNotReadIsHeldAndGoesOn) {
  auto [near, far] = connect_local();
  End reading(std::move(near)), sending(std::move(far));
  constexpr std::size_t kBytes = 64 << 10;
  TcpSender slow = sending.sender(kBytes, 1), quick = sending.sender(kBytes, 2);
  TcpReceiver slow_reader = reading.receiver(1), quick_reader = reading.receiver(2);
  std::string text = text_of(kBytes, 1), word = "word";
  std::size_t sent = 0;
  for (int round = 0; round < 4000; ++round) {
    if (slow.try_send(one_piece(text), kBytes, sent)) ++sent;
    if (round % 40 == 39 && quick.try_send(one_piece(word), 4, 9)) {
      for (int look = 0; look < 10'000 && !gets(quick_reader, "word", 9); ++look) static_cast<void>(quick.try_flush());
    }
    static_cast<void>(quick_reader.ready());
  }
  EXPECT_GT(sent * kBytes, Connection::kHoldBytes / 2);
  EXPECT_LT(sent * kBytes, 4 * Connection::kHoldBytes) << "it was to be held";
  EXPECT_FALSE(slow.has_credit());
  for (std::size_t message = 0; message < sent; ++message) {
    std::string landed(kBytes, '-');
    Arrival arrival = Arrival::none;
    for (int look = 0; look < 100'000 && arrival != Arrival::whole; ++look) {
      arrival = slow_reader.try_receive(one_piece(landed), kBytes, message);
      static_cast<void>(slow.try_flush());
    }
    ASSERT_EQ(arrival, Arrival::whole) << message;
    ASSERT_EQ(landed, text);
  }
  EXPECT_TRUE(slow.has_credit());
}

TEST(Connection, WhoeverSpeaksOtherwiseIsHungUpOn) {
  StreamHeader huge{1u << 31, Kind::message, 1, 1}, unknown{0, static_cast<Kind>(77), 1, 1}, heavy{4, Kind::bye, 1, 1};
  for (const StreamHeader& frame : {huge, unknown, heavy}) {
    auto [near, far] = connect_local();
    End end(std::move(near));
    TcpReceiver one = end.receiver(1);
    put(far, std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + "four");
    EXPECT_FALSE(one.ready());
    EXPECT_TRUE(end.connection.breakage().noted());
    EXPECT_FALSE(end.sender(100, 2).has_credit());
  }
}

// Threads of five groups, each way at once, over a connection whose buffers are small.
TEST(Connection, CarriesManyGroupsAtOnce) {
  auto [near, far] = testing::connect_loopback(AF_INET);
  const int small = 16 << 10;
  for (const FileDescriptor* socket : {&near, &far})
    ASSERT_EQ(::setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  End one(std::move(near)), other(std::move(far));
  constexpr int kGroups = 5, kMessages = 300;
  std::atomic<int> wrong{0};
  const auto body = [&](End& end, std::uint64_t group, int mine, int theirs) {
    TcpSender sender = end.sender(256 << 10, group);
    TcpReceiver receiver = end.receiver(group);
    const auto bytes_of = [&](int message, int salt) {
      std::mt19937 random(static_cast<unsigned>(message * 31 + salt) + static_cast<unsigned>(group) * 977);
      return static_cast<std::size_t>(random() % 3 == 0 ? random() % 100'000 : random() % 300);
    };
    int sent = 0, received = 0;
    std::string landed(bytes_of(0, theirs), '-'), text = text_of(bytes_of(0, mine), mine);
    while (sent < kMessages || received < kMessages || !sender.try_flush()) {
      const std::uint32_t ticket = end.bell.rings();
      bool moved = false;
      if (sent < kMessages && sender.try_send(one_piece(text), text.size(), static_cast<std::uint64_t>(sent))) {
        moved = true;
        ++sent;
        text = text_of(bytes_of(sent, mine), mine + sent);
      }
      if (received < kMessages) {
        const auto number = static_cast<std::uint64_t>(received);
        const Arrival arrival = receiver.try_receive(one_piece(landed), landed.size(), number);
        moved = moved || arrival == Arrival::moved || arrival == Arrival::whole;
        if (arrival == Arrival::other) ++wrong;
        if (arrival == Arrival::whole) {
          if (landed != text_of(landed.size(), theirs + received)) ++wrong;
          ++received;
          landed.assign(bytes_of(received, theirs), '-');
        }
      }
      if (wrong > 0) return;
      if (!moved) end.bell.sleep(ticket, std::chrono::seconds(5));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t group = 1; group <= kGroups; ++group) {
    threads.emplace_back([&, group] { body(one, group, 1, 2); });
    threads.emplace_back([&, group] { body(other, group, 2, 1); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tutti::transport
