// Waiting for the first of several calls, of one communicator and of several.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "tutti/interrupt.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

class AnyOfSeveral : public ::testing::TestWithParam<std::tuple<Ranks, bool>> {
 protected:
  void run(int ranks, const RankFunction& body) {
    Options options;
    options.timeout = std::chrono::milliseconds(20'000);
    testing::expect_all_ok(testing::run_ranks(std::get<0>(GetParam()), ranks, body, options));
  }
  bool several() const { return std::get<1>(GetParam()); }
};

constexpr int kCalls = 4;

// Where call i is made: all in one place, or each in a group of its own.
struct Places {
  Places(Communicator& comm, bool several) : world(&comm) {
    for (int i = 0; several && i < kCalls; ++i) own.push_back(comm.duplicate());
  }
  Communicator& of(int call) { return own.empty() ? *world : own[static_cast<std::size_t>(call)]; }

  Communicator* world;
  std::vector<Communicator> own;
};

// Rank 0 receives kCalls messages of rank 1, which sends each when it is asked to.
struct Receiver {
  Receiver(Communicator& comm, bool several) : places(comm, several) {
    for (int i = 0; comm.rank() == 0 && i < kCalls; ++i)
      works.push_back(places.of(i).recv_async(std::span(data).subspan(static_cast<std::size_t>(i), 1), 1, i));
  }
  void ask_for(int call) { places.world->send(one(call), 1, 100); }
  // Rank 1, until it is asked for -1.
  void serve() {
    for (int call = 0;;) {
      places.world->recv(one(call), 0, 100);
      if (call < 0) return;
      int value = call + 70;
      places.of(call).send(one(value), 0, call);
    }
  }

  Places places;
  std::vector<int> data = std::vector<int>(kCalls, 0);
  std::vector<Work> works;
};

TEST_P(AnyOfSeveral, TheOneThatEndedIsReturned) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    for (const int call : {2, 0, 3, 1}) {
      require(!test_any(receiver.works), "nobody was asked");
      receiver.ask_for(call);
      const auto ended = wait_any(receiver.works);
      require(ended == static_cast<std::size_t>(call), "this one");
      require(wait_any(receiver.works) == ended && test_any(receiver.works) == ended, "until it is dropped");
      require(receiver.works[*ended].received().tag == call && receiver.data[*ended] == call + 70, "what was sent");
      receiver.works[*ended] = {};
    }
    require(!wait_any(receiver.works) && wait_some(receiver.works).empty(), "all are done");
    require(!test_any(receiver.works), "here, too");
    receiver.ask_for(-1);
  });
}

TEST_P(AnyOfSeveral, AllThatHaveEndedAreReturned) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    for (const int call : {3, 1}) receiver.ask_for(call);
    receiver.works[1].wait();
    receiver.works[3].wait();
    require(wait_some(receiver.works) == std::vector<std::size_t>{1, 3}, "both, in the order of their places");
    for (const std::size_t call : {1U, 3U}) receiver.works[call] = {};
    for (const int call : {0, 2, -1}) receiver.ask_for(call);
    std::size_t ended = 0;
    for (auto now = wait_some(receiver.works); !now.empty(); now = wait_some(receiver.works)) {
      for (const std::size_t call : now) receiver.works[call] = {};
      ended += now.size();
    }
    require(ended == 2 && receiver.data == std::vector<int>{70, 71, 72, 73}, "all of them");
  });
}

TEST_P(AnyOfSeveral, TheyGoOnWhenTheTimeHasPassed) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    for (const auto wait : {std::chrono::milliseconds(0), std::chrono::milliseconds(40)}) {
      require(error_of([&] { wait_any(receiver.works, wait); }).code() == ErrorCode::timeout, "nobody was asked");
      require(error_of([&] { wait_some(receiver.works, wait); }).code() == ErrorCode::timeout, "nor now");
    }
    receiver.ask_for(2);
    require(wait_any(receiver.works, std::chrono::milliseconds(15'000)) == 2U, "in time");
    for (const int call : {0, 1, 3, -1}) receiver.ask_for(call);
    wait_all(receiver.works);
  });
}

// All processor time of the process counts: neither the caller nor who drives the calls meanwhile may spin.
TEST_P(AnyOfSeveral, WhoWaitsSleeps) {
  if (std::get<0>(GetParam()) == Ranks::threads) GTEST_SKIP() << "other ranks' time would count, too";
  run(2, [&](Communicator& comm) {
    constexpr std::chrono::milliseconds kWait{600};
    const auto used_ms = [] {
      timespec now{};
      ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
      return now.tv_sec * 1'000 + now.tv_nsec / 1'000'000;
    };
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    const auto before = used_ms();
    require(error_of([&] { wait_any(receiver.works, kWait); }).code() == ErrorCode::timeout, "nobody was asked");
    require(used_ms() - before < kWait.count() / 2, std::to_string(used_ms() - before) + " ms of work");
    for (const int call : {0, 1, 2, 3, -1}) receiver.ask_for(call);
    wait_all(receiver.works);
  });
}

// The group of call 2 breaks while all are waited for.
TEST_P(AnyOfSeveral, AFailureIsThrownAndLeavesOtherGroupsAlone) {
  if (!several()) GTEST_SKIP() << "one group fails as one";
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    int token = 0;
    if (comm.rank() == 1) {
      comm.recv(one(token), 0, 1);
      receiver.places.of(2).close();
      return receiver.serve();
    }
    comm.send(one(token), 1, 1);
    const Error error = error_of([&] { wait_any(receiver.works); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    for (int i = 0; i < kCalls; ++i)
      require((receiver.works[static_cast<std::size_t>(i)].error() != nullptr) == (i == 2), "the one that failed");
    receiver.works[2] = {};
    receiver.ask_for(3);
    require(wait_any(receiver.works) == 3U, "the others go on");
    for (const int call : {0, 1, -1}) receiver.ask_for(call);
    wait_all(receiver.works);
  });
}

TEST_P(AnyOfSeveral, AnotherThreadMayAbort) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    int token = 0;
    if (comm.rank() == 1) {
      if (several()) return static_cast<void>(comm.recv(one(token), 0));
      return static_cast<void>(error_of([&] { comm.recv(one(token), 0); }));
    }
    std::thread other([&] { receiver.places.of(1).abort(); });
    const Error error = error_of([&] { wait_any(receiver.works); });
    other.join();
    require(error.code() == ErrorCode::aborted, error.what());
    for (int call = 0; call < kCalls; ++call) receiver.places.of(call).abort();
    for (Work& work : receiver.works) static_cast<void>(error_of([&] { work.wait(); }));
    if (several()) comm.send(one(token), 1);
  });
}

std::atomic<int> asked{0};

TEST_P(AnyOfSeveral, CanBeInterruptedAndTheCallsGoOn) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    {
      const InterruptCheck check([](void*) { return ++asked > 1; });
      require(error_of([&] { wait_any(receiver.works); }).code() == ErrorCode::aborted, "as asked");
    }
    for (const int call : {0, 1, 2, 3, -1}) receiver.ask_for(call);
    wait_all(receiver.works);
  });
}

TEST_P(AnyOfSeveral, WhatWasAskedForAtTheirEndIsStillCalled) {
  run(2, [&](Communicator& comm) {
    Receiver receiver(comm, several());
    if (comm.rank() == 1) return receiver.serve();
    std::atomic<int> told{0};
    for (Work& work : receiver.works) work.on_end([&] { ++told; });
    for (int call = 0; call < kCalls; ++call) {
      receiver.ask_for(call);
      require(wait_any(receiver.works) == static_cast<std::size_t>(call), "this one");
      receiver.works[static_cast<std::size_t>(call)] = {};
    }
    require(told == kCalls, "each of them once");
    receiver.ask_for(-1);
  });
}

// Collectives of several groups, thousands of them, each waited for as it ends.
TEST_P(AnyOfSeveral, ManyInFlight) {
  run(3, [&](Communicator& comm) {
    constexpr int kRounds = 200;
    Places places(comm, several());
    std::vector<std::vector<std::int64_t>> data(kCalls, std::vector<std::int64_t>(100));
    std::vector<Work> works(kCalls);
    std::vector<int> rounds(kCalls, 0);
    const auto start = [&](std::size_t call) {
      std::fill(data[call].begin(), data[call].end(), comm.rank() + rounds[call]);
      works[call] = places.of(static_cast<int>(call)).all_reduce_async(data[call]);
    };
    if (!several()) {  // whose calls must be made in one order on all ranks
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t call = 0; call < kCalls; ++call) start(call);
        while (const auto ended = wait_any(works)) works[*ended] = {};
        for (const auto& sums : data) require(sums.back() == 3, "sum");
      }
      return;
    }
    for (std::size_t call = 0; call < kCalls; ++call) start(call);
    while (const auto ended = wait_any(works)) {
      require(data[*ended].back() == 3 + 3 * rounds[*ended], "sum");
      works[*ended] = {};
      if (++rounds[*ended] < kRounds) start(*ended);
    }
    require(rounds == std::vector<int>(kCalls, kRounds), "all rounds");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, AnyOfSeveral,
                         ::testing::Combine(::testing::ValuesIn(testing::kAllRanks), ::testing::Bool()),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) ? "_several_groups" : "_one_group");
                         });

}  // namespace
}  // namespace tutti
