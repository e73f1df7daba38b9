// The transport contract when ranks give up, die or leave, checked on every transport.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "check.h"
#include "transport/conformance.h"
#include "transport/talk.h"

namespace tutti::transport {
namespace {

using testing::await;
using testing::Kind;
using testing::require;
using testing::soon;
using testing::Talk;
using testing::text_of;
using Clock = Deadline::Clock;

class Losses : public testing::Conformance {};

constexpr std::chrono::seconds kNoticed{1};

// What failure() says first. Nobody rings for the dead: whoever waits looks again now and then.
template <class Look>
Failure await_failure(Transport& transport, Look&& look) {
  for (const Deadline deadline = soon(); !deadline.passed();) {
    const std::uint32_t ticket = transport.prepare_sleep();
    look();
    if (const auto failure = transport.failure()) return *failure;
    transport.sleep(ticket, std::chrono::milliseconds(20));
  }
  throw std::runtime_error("no failure before the deadline");
}
Failure await_failure(Transport& transport) {
  return await_failure(transport, [] {});
}

// A moment that ranks of any kind can tell each other.
struct SharedMoment {
  SharedMoment() {
    at = static_cast<std::atomic<Clock::rep>*>(
        ::mmap(nullptr, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~SharedMoment() { ::munmap(at, sizeof *at); }
  void set() { at->store(Clock::now().time_since_epoch().count()); }
  std::chrono::nanoseconds since() const { return Clock::now().time_since_epoch() - Clock::duration(at->load()); }

  std::atomic<Clock::rep>* at;
};

TEST_P(Losses, AnAbortReachesEveryRankAndNamesTheCulprit) {
  run(3, [](Transport& transport) {
    require(!transport.given_up(), "nobody has given up yet");
    Talk talk(transport, 0);  // the one that gives up might otherwise be gone before the others are there
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != transport.rank()) talk.send(peer, "here");
    }
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != transport.rank()) talk.receive(peer, 4);
    }
    if (transport.rank() == 1) transport.abort(2, ErrorCode::mismatch);
    std::optional<Failure> failure;
    await(transport, [&] { return (failure = transport.failure()).has_value(); });
    require(failure->rank == 1 && failure->blamed == 2 && !failure->died && failure->cause == ErrorCode::mismatch,
            "culprit " + std::to_string(failure->rank));
    await(transport, [&] { return transport.given_up(); });
  });
}

TEST_P(Losses, TheFirstAbortIsTheOneThatCounts) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    if (transport.rank() == 0) {
      transport.abort(1, ErrorCode::timeout);
      talk.receive(1, 4);
    } else {
      await(transport, [&] { return transport.failure().has_value(); });
      transport.abort(0, ErrorCode::mismatch);
      talk.send(0, "done");
      talk.flush();
    }
    const auto failure = transport.failure();
    require(failure && failure->rank == 0 && failure->blamed == 1 && failure->cause == ErrorCode::timeout,
            "the first failure stays");
  });
}

// Rank 1 says what it is in when it hears that rank 0 has given up, and again when it gives up itself: by then it may
// be in something else, and rank 0 tells the difference from what it hears last.
TEST_P(Losses, WhoGivesUpAfterAnotherSaysWhatItIsInByThen) {
  run(2, [](Transport& transport) {
    const auto states = [&](std::uint64_t sequence) {
      for (std::uint64_t channel = 0; channel < testing::kChannels; ++channel) {
        state(*transport.flags(static_cast<int>(channel), 1), {sequence, 7 + channel, 1000});
      }
      transport.notify_all();
    };
    const auto await_statements = [&](std::uint64_t sequence) {
      for (std::uint64_t channel = 0; channel < testing::kChannels; ++channel) {
        const Flags& theirs = *transport.flags(static_cast<int>(channel), 1);
        await(transport, [&] { return stated(theirs) == Statement{sequence, 7 + channel, 1000}; });
      }
    };
    Talk talk(transport, 0);
    if (transport.rank() == 0) {
      talk.receive(1, 4);
      transport.abort(1, ErrorCode::mismatch);
      await_statements(1);
      talk.send(1, "seen");
      talk.flush();
      await_statements(2);
    } else {
      states(1);
      talk.send(0, "here");
      talk.flush();
      await(transport, [&] { return transport.failure().has_value(); });
      talk.receive(0, 4);
      states(2);
      transport.abort(0, ErrorCode::mismatch);
    }
  });
}

TEST_P(Losses, ADeadPeerIsNamedByEverySurvivor) {
  if (!testing::has_processes(GetParam())) GTEST_SKIP() << "threads do not die alone";
  SharedMoment death;
  const auto words = testing::run_transport(GetParam(), 4, [&](Transport& transport) {
    // Messages flow round the ring; rank 2 is killed among them.
    Talk talk(transport, 0);
    const int right = (transport.rank() + 1) % 4, left = (transport.rank() + 3) % 4;
    std::string text(10'000, '-');
    int round = 0;
    bool sent = false;
    const Failure failure = await_failure(transport, [&] {
      for (int moves = 0; moves < 100; ++moves) {
        if (!sent) sent = talk.try_send(right, text);
        transport.sender(0, right).try_flush();
        if (talk.try_receive(left, text) != Arrival::whole) return;
        sent = false;
        if (transport.rank() != 2 || ++round < 150) continue;
        death.set();
        ::kill(::getpid(), SIGKILL);
      }
    });
    require(failure.rank == 2 && failure.died, "rank 2 died, not rank " + std::to_string(failure.rank));
    require(death.since() < kNoticed, "noticed in time");
    require(await_failure(transport).rank == 2, "and it stays so");
  });
  EXPECT_EQ(words, (std::vector<std::string>{"", "", "signal 9", ""}));
}

TEST_P(Losses, APeerThatLeftInGoodOrderIsNoFailure) {
  run(3, [](Transport& transport) {
    Talk talk(transport, 0);
    const std::size_t bytes = transport.offers().slot_bytes();
    if (transport.rank() == 2) {
      for (int peer = 0; peer < 2; ++peer) {
        await(transport, [&] { return transport.receiver(0, peer).ready(); });  // and never reads it
        talk.send(peer, text_of(bytes, peer));
      }
      talk.flush();
      return;
    }
    talk.send(2, text_of(std::min<std::size_t>(bytes, 40'000), 0));
    talk.flush();
    const Deadline deadline = soon();
    while (!transport.departed(2)) {
      require(!deadline.passed(), "rank 2 has left");
      transport.sleep(transport.prepare_sleep(), std::chrono::milliseconds(5));
    }
    require(!transport.departed(1 - transport.rank()), "the other is still here");
    require(talk.receive(2, bytes) == text_of(bytes, transport.rank()), "what it sent is still there");
    std::string text(4, '-');
    require(talk.try_receive(2, text) == Arrival::none, "and nothing more");
    require(!transport.receiver(0, 2).ready(), "nor ever will be");
    require(!transport.failure() && !transport.given_up(), "nothing has failed");
    Talk others(transport, 1);
    others.send(1 - transport.rank(), "bye");
    others.receive(1 - transport.rank(), 3);
    others.flush();
  });
}

TEST_P(Losses, AReceiverThatGivesUpLeavesTheSenderAbleToNotice) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    std::string text = text_of(transport.offers().slot_bytes(), 0);
    if (transport.rank() == 0) {
      const Failure failure = await_failure(transport, [&] {
        while (talk.try_send(1, text)) {
        }
      });
      require(failure.rank == 1 && !failure.died && failure.cause == ErrorCode::timeout, "rank 1 gave up");
    } else {
      await(transport, [&] { return talk.try_receive(0, text) != Arrival::none; });  // all of it or its beginning
      transport.abort(-1, ErrorCode::timeout);
    }
  });
}

TEST_P(Losses, ASenderThatGivesUpLeavesTheReceiverAbleToNotice) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    std::string text = text_of(transport.offers().slot_bytes(), 0);
    if (transport.rank() == 0) {
      while (talk.try_send(1, text)) {  // the last of them has left in part only, where there are parts
      }
      transport.abort(1, ErrorCode::timeout);
    } else {
      const Failure failure = await_failure(transport);
      require(failure.rank == 0 && failure.blamed == 1 && !failure.died, "rank 0 gave up");
      // What is there may still be received; what is missing never comes, and nothing waits for it.
      for (int look = 0; look < 100; ++look) require(talk.try_receive(0, text) != Arrival::other, "torn, not other");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Losses, testing::every_kind(), testing::kind_name);

}  // namespace
}  // namespace tutti::transport
