// The control plane among real processes: deaths, silence, aborts, announcements and farewells.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/control.h"
#include "base/environment.h"
#include "rendezvous/forked_ranks.h"
#include "rendezvous/lobby_server.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Counts the wake-ups of a control plane, and waits for what they bring.
class Listening {
 public:
  explicit Listening(Control& control, std::uint64_t kinds = 1) : control_(control) {
    control_.attach({[this] {
                       const std::lock_guard lock(mutex_);
                       ++wakes_;
                       woken_.notify_all();
                     },
                     [kinds](std::uint32_t channel) {
                       return Statement{static_cast<std::uint64_t>(::getpid()), kinds, channel};
                     },
                     2,
                     {}});
  }
  ~Listening() { control_.attach({}); }

  // Looks again at every wake-up, so a missing one shows.
  void await(const std::function<bool()>& condition, const std::string& what) {
    std::unique_lock lock(mutex_);
    const auto until = Clock::now() + seconds(20);
    for (;;) {
      const int seen = wakes_;
      lock.unlock();
      const bool holds = condition();
      lock.lock();
      if (holds) return;
      require(woken_.wait_until(lock, until, [&] { return wakes_ != seen; }), what + " within 20 s");
    }
  }

 private:
  Control& control_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

// A moment that all processes see.
class SharedMoment {
 public:
  SharedMoment()
      : word_(static_cast<std::atomic<std::int64_t>*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedMoment() { ::munmap(word_, 4096); }
  void set() { word_->store(Clock::now().time_since_epoch().count()); }
  Clock::duration since() const { return Clock::now().time_since_epoch() - Clock::duration(word_->load()); }

 private:
  std::atomic<std::int64_t>* word_;
};

void over_tcp(MeetingOptions& options) { options.wanted = TransportKind::tcp; }

void over_tcp_with_short_silence(MeetingOptions& options) {
  over_tcp(options);
  options.silence = milliseconds(750);
}

// `end` is how rank 1 ends; the others must name it long before the silence that counts by default.
void expect_death_is_named(const std::function<void(MeetingOptions&)>& change, bool silently,
                           const std::function<void()>& end) {
  SharedMoment ended;
  const auto ends = meet_forked(4, fresh_unix_endpoint(), change, [&](Met& met) {
    Listening listening(*met.control);
    if (met.rank == 1) {
      // All have met and hear each other by the time the others have announced something.
      listening.await([&] { return met.control->announced(0, 0).sequence == 1; }, "rank 0 is heard");
      ended.set();
      end();
    }
    met.control->announce(0, {1, 2, 3});
    listening.await([&] { return met.control->failure().has_value(); }, "the death is noticed");
    const auto noticed = ended.since();
    const Failure failure = *met.control->failure();
    require(failure.rank == 1 && failure.died, "rank 1 is named, not " + std::to_string(failure.rank));
    require((failure.loss == Loss::silent) == silently, "how it was lost");
    require(noticed < MeetingOptions().silence / 2, "in time, not " + std::to_string(noticed.count()) + " ns");
    if (met.rank == 0) ::kill(met.members[1].pid, SIGKILL);  // where it is only stopped
  });
  for (const std::size_t rank : {0, 2, 3})
    EXPECT_EQ(ends[rank].exit_code, 0) << "rank " << rank << ": " << ends[rank].message;
}

TEST(Watch, AKilledRankIsNamedAtOnce) {
  expect_death_is_named(over_tcp, false, [] { ::kill(::getpid(), SIGKILL); });
}

TEST(Watch, AStoppedRankIsNamedAfterItsSilence) {
  expect_death_is_named(over_tcp_with_short_silence, true, [] { ::kill(::getpid(), SIGSTOP); });
}

// More than a rank has neighbours: whoever is no neighbour of the dead hears of it from others.
TEST(Watch, ADeathAmongManyIsNamedByAll) {
  constexpr int kSize = 24, kVictim = 7;
  const auto ends = meet_forked(kSize, fresh_unix_endpoint(), over_tcp, [&](Met& met) {
    Listening listening(*met.control);
    met.control->announce(0, {1, 2, 3});
    for (int peer = 0; peer < kSize; ++peer) {
      const auto heard = [&] { return met.control->announced(0, peer).sequence == 1; };
      if (peer != met.rank && met.rank == kVictim) listening.await(heard, "rank " + std::to_string(peer) + " is heard");
    }
    if (met.rank == kVictim) ::kill(::getpid(), SIGKILL);
    listening.await([&] { return met.control->failure().has_value(); }, "the death is noticed");
    require(met.control->failure()->rank == kVictim && met.control->failure()->died, "the dead is named");
    // Nobody leaves before all know.
    met.control->announce(1, {1, 2, 3});
    for (int peer = 0; peer < kSize; ++peer) {
      const auto knows = [&] { return met.control->announced(1, peer).sequence == 1 || met.control->departed(peer); };
      if (peer != met.rank && peer != kVictim) listening.await(knows, "rank " + std::to_string(peer) + " knows, too");
    }
  });
  for (int rank = 0; rank < kSize; ++rank) {
    const ChildEnd& end = ends[static_cast<std::size_t>(rank)];
    if (rank == kVictim) {
      EXPECT_EQ(end.signal, SIGKILL);
    } else {
      EXPECT_TRUE(end.ok()) << "rank " << rank << ": " << end.message;
    }
  }
}

// No two of 0, 3 and 6 among 12 are neighbours: once the others have left they must find each other.
TEST(Watch, ThoseWhoRemainLinkUpAndWatchEachOther) {
  const auto ends = meet_forked(12, fresh_unix_endpoint(), over_tcp, [](Met& met) {
    Control& control = *met.control;
    if (met.rank % 3 != 0 || met.rank == 9) return;  // says goodbye
    Listening listening(control);
    for (int peer = 0; peer < 12; ++peer) {
      if (peer % 3 != 0 || peer == 9)
        listening.await([&] { return control.departed(peer); }, "rank " + std::to_string(peer) + " has left");
    }
    control.announce(0, {1, 2, 3});
    for (const int peer : {0, 3, 6}) {
      const auto heard = [&] { return control.announced(0, peer).sequence == 1; };
      if (peer != met.rank) listening.await(heard, "rank " + std::to_string(peer) + " is heard");
    }
    control.announce(1, {1, 2, 3});
    if (met.rank == 3) {
      for (const int peer : {0, 6})
        listening.await([&] { return control.announced(1, peer).sequence == 1; }, "the others have heard all");
      ::kill(::getpid(), SIGKILL);
    }
    listening.await([&] { return control.failure().has_value(); }, "the death is noticed");
    require(control.failure()->rank == 3 && control.failure()->died, "rank 3 is named");
  });
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(rank == 3 || ends[rank].ok()) << "rank " << rank << ": " << ends[rank].message;
  }
}

// What the data plane attaches may throw, and so may the system: no error of the thread ends the process.
TEST(Watch, AnErrorOfItsThreadIsAFailureInWords) {
  expect_all_ok(meet_forked(2, fresh_unix_endpoint(), over_tcp, [](Met& met) {
    Control& control = *met.control;
    if (met.rank == 0) {
      Listening listening(control);
      listening.await([&] { return control.failure().has_value(); }, "rank 1 gives up");
      const Failure failure = *control.failure();
      require(failure.rank == 1 && !failure.died && failure.cause == ErrorCode::system, "as told");
      require(failure.words.empty(), "words are for rank 1 alone");
      return;
    }
    Control::Hooks hooks;
    hooks.wake = [] { throw std::runtime_error("no memory for this"); };
    control.attach(hooks);
    const auto until = Clock::now() + seconds(20);
    while (!control.failure() && Clock::now() < until) std::this_thread::yield();
    require(control.failure().has_value(), "the failure");
    const Failure failure = *control.failure();
    require(failure.rank == 1 && !failure.died && failure.cause == ErrorCode::system, "rank 1 itself gives up");
    require(failure.words.find("control plane has failed: no memory for this") != std::string::npos, failure.words);
    control.attach({});
  }));
}

// The one table of variables says the same.
TEST(Watch, TheDefaultsAreThoseOfTheTable) {
  std::map<std::string_view, std::string_view> unset;
  for (const Variable& variable : variables()) unset[variable.name] = variable.unset;
  EXPECT_EQ(unset["TUTTI_SUSPECT_MS"], std::to_string(MeetingOptions().suspicion.count()));
  EXPECT_EQ(unset["TUTTI_SILENCE_MS"], std::to_string(MeetingOptions().silence.count()));
  // What docs/pytorch.md promises.
  EXPECT_EQ(MeetingOptions().suspicion, std::chrono::seconds(1));
  EXPECT_EQ(MeetingOptions().silence, std::chrono::seconds(10));
}

TEST(Watch, AnAbortReachesAllAndBringsTheirStatements) {
  expect_all_ok(meet_forked(3, fresh_tcp_endpoint("127.0.0.1"), over_tcp, [](Met& met) {
    Control& control = *met.control;
    {
      Listening listening(control);
      if (met.rank == 2) control.abort(1, ErrorCode::mismatch);
      listening.await([&] { return control.failure().has_value(); }, "the abort");
    }
    const Failure failure = *control.failure();
    require(failure.rank == 2 && failure.blamed == 1 && !failure.died && failure.cause == ErrorCode::mismatch,
            "as told");
    // Whoever attaches after the failure is asked, too.
    Listening listening(control, 1000);
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == met.rank) continue;
      const auto pid = static_cast<std::uint64_t>(met.members[static_cast<std::size_t>(peer)].pid);
      listening.await([&] { return control.announced(1, peer) == Statement{pid, 1000, 1}; }, "what the peer is in");
    }
    // Nobody leaves before all have heard everybody.
    control.announce(0, {77, 0, 0});
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == met.rank) continue;
      listening.await([&] { return control.announced(0, peer).sequence == 77 || control.departed(peer); }, "the end");
    }
  }));
}

TEST(Watch, AFarewellIsNoDeathAndKeepsWhatWasSaidBefore) {
  expect_all_ok(meet_forked(3, fresh_unix_endpoint(), over_tcp, [](Met& met) {
    Control& control = *met.control;
    Listening listening(control);
    if (met.rank == 0) {
      control.announce(5, {8, 9, 10});
      return;  // says goodbye
    }
    listening.await([&] { return control.departed(0); }, "goodbye");
    require(control.announced(5, 0) == Statement{8, 9, 10}, "the last words");
    require(!control.failure(), "no failure");
    // The two that are left go on, and part one after the other.
    if (met.rank == 2) listening.await([&] { return control.departed(1); }, "goodbye of rank 1");
    require(!control.failure(), "no failure");
  }));
}

TEST(Watch, ADescriptorIsToldOfOncePerArming) {
  expect_all_ok(meet_forked(2, fresh_unix_endpoint(), over_tcp, [](Met& met) {
    const FileDescriptor event(::eventfd(0, EFD_CLOEXEC));
    std::atomic<int> times{0};
    Links::Hooks hooks;
    hooks.readable = event.get();
    hooks.happened = [&] { ++times; };
    met.links->attach(std::move(hooks));
    auto require_once_more = [&, expected = 0]() mutable {
      met.links->arm();
      ++expected;
      const auto limit = Clock::now() + seconds(20);
      while (times < expected && Clock::now() < limit) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));  // time for one too many
      require(times == expected, "one call for each arming");
    };
    ::eventfd_write(event.get(), 1);
    require_once_more();
    require_once_more();  // still readable
    met.links->attach({});
    met.links->arm();
  }));
}

FileDescriptor process(pid_t pid) { return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

// A launcher's part: keeps the lobby, and tells it of a dead child, until all children have ended.
void serve(LobbyServer& server, const ForkedGroup& group, int size, int victim) {
  std::vector<FileDescriptor> lives;
  for (int rank = 0; rank < size; ++rank) lives.push_back(process(group.pid(rank)));
  std::vector<pollfd> entries;
  for (const FileDescriptor& life : lives) entries.push_back({life.get(), POLLIN, 0});
  entries.push_back({server.descriptor(), POLLIN, 0});
  int running = size;
  while (running > 0) {
    ASSERT_GT(::poll(entries.data(), entries.size(), 30'000), 0);
    for (int rank = 0; rank < size; ++rank) {
      pollfd& entry = entries[static_cast<std::size_t>(rank)];
      if (entry.revents == 0) continue;
      if (rank == victim) server.note_death(rank, "was killed by signal 9");
      entry.fd = -1;
      --running;
    }
    server.progress();
  }
}

// From before the first socket until well after the last link.
TEST(Watch, AKillAtAnyPointOfTheMeetingIsNamedByEverySurvivor) {
  constexpr int kSize = 4;
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    LobbyServer server(fresh_unix_endpoint(), kSize, "a test", std::nullopt, Deadline::after(seconds(30)), Log());
    const int victim = static_cast<int>(random() % kSize);
    ForkedGroup group(kSize, [&](int rank) {
      MeetingOptions options = options_for(rank, kSize, server.endpoint());
      options.keep_lobby = false;
      options.wanted = TransportKind::tcp;
      const Met met = meet(options);
      Listening listening(*met.control);
      listening.await([&] { return met.control->failure().has_value(); }, "a failure");
      throw Error(ErrorCode::peer_lost, "rank " + std::to_string(met.control->failure()->rank) + " died");
    });
    const auto began = Clock::now();
    const auto delay = std::chrono::microseconds(random() % 8000);
    while (Clock::now() - began < delay) server.progress();
    ASSERT_EQ(::kill(group.pid(victim), SIGKILL), 0);
    const auto killed = Clock::now();
    serve(server, group, kSize, victim);
    EXPECT_LT(Clock::now() - killed, seconds(2)) << "round " << round;
    const auto ends = group.wait();
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank == victim) continue;
      const std::string& words = ends[static_cast<std::size_t>(rank)].message;
      EXPECT_EQ(words.find("rank " + std::to_string(victim)), 0u)
          << "round " << round << ", rank " << rank << ": " << words;
    }
  }
}

}  // namespace
}  // namespace tutti::rendezvous
