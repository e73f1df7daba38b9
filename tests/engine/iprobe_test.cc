// Looking for messages without waiting: asking again and again finds what was sent, and harms nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

class Iprobe : public testing::OverAllRanks {};

// Asks until there is one.
Received poll(Communicator& comm, int source, int tag) {
  for (;;) {
    if (const auto found = comm.iprobe(source, tag, DType::int32)) return *found;
  }
}

void require_received(const Received& received, int source, int tag, std::size_t count) {
  require(received.source == source && received.tag == tag && received.count == count,
          "found " + std::to_string(received.count) + " with tag " + std::to_string(received.tag) + " from rank " +
              std::to_string(received.source));
}

TEST_P(Iprobe, FindsNothingBeforeItIsSent) {
  run(2, [](Communicator& comm) {
    int value = 7;
    require(!comm.iprobe(kAnySource, kAnyTag) && !comm.iprobe(comm.rank(), 3), "nobody has sent anything");
    comm.barrier();
    if (comm.rank() == 0) return comm.send(one(value), 1, 5);
    require_received(poll(comm, 0, 5), 0, 5, 1);
    require(!comm.iprobe(0, 6) && comm.iprobe(0, kAnyTag), "by its tag");
    comm.recv(one(value), 0, 5);
    require(!comm.iprobe(kAnySource, kAnyTag), "it has been received");
  });
}

// Large ones, too, which lie before the one that is asked for, and are taken out of its way while it is polled for.
TEST_P(Iprobe, FindsWhatLiesBehindOtherMessages) {
  run(3, [](Communicator& comm) {
    constexpr std::size_t kMany = 1'000'000;
    std::vector<int> large(kMany), small(3, 1);
    if (comm.rank() != 0) {
      std::iota(large.begin(), large.end(), comm.rank());
      for (int tag = 0; tag < 5; ++tag) comm.send(tag % 2 == 0 ? std::span(small) : std::span(large), 0, tag);
      return comm.send(small, 0, 9);
    }
    for (const int source : {2, 1}) require_received(poll(comm, source, 9), source, 9, 3);
    for (const int source : {1, 2}) {
      for (int tag = 5; tag-- > 0;) {
        const Received found = comm.probe(kAnySource, tag, DType::int32);
        require(found.count == (tag % 2 == 0 ? 3 : kMany), "they are all still there");
        comm.recv(tag % 2 == 0 ? std::span(small) : std::span(large), source, tag);
        const bool whole = large.front() == source && large.back() == source + static_cast<int>(kMany) - 1;
        require(tag % 2 == 0 || whole, "what was sent");
      }
      comm.recv(small, source, 9);
    }
  });
}

// Receives that were posted before come first, and both they and collectives go on while this rank only asks.
TEST_P(Iprobe, BesideAsyncCalls) {
  run(2, [](Communicator& comm) {
    const int other = 1 - comm.rank();
    for (int round = 0; round < 20; ++round) {
      std::vector<int> first(1), second(30'000), sent(30'000, round);
      std::vector<float> sum(1000, 1.0f);
      Work posted = comm.recv_async(first, other, 1);
      Work later = comm.recv_async(second, other, 2);
      Work reduces = comm.all_reduce_async(sum);
      int token = round;
      Work sends[] = {comm.send_async(std::span(sent).first(1), other, 1), comm.send_async(one(token), other, 1),
                      comm.send_async(sent, other, 2)};
      require_received(poll(comm, kAnySource, 1), other, 1, 1);  // the second: the first is taken
      while (!later.test()) require(comm.iprobe(other, 1).has_value(), "it stays");
      posted.wait();
      comm.recv(one(token), other, 1);
      require(first[0] == round && second[29'999] == round && token == round, "each its own");
      reduces.wait();
      wait_all(sends);
      require(sum[999] == 2.0f, "sum");
    }
  });
}

TEST_P(Iprobe, CountsInElementsAndRefusesParts) {
  run(1, [](Communicator& comm) {
    std::vector<int> data(3);
    comm.send(data, 0, 2);
    require_received(*comm.iprobe(0, 2), 0, 2, 12);
    const Error error = error_of([&] { static_cast<void>(comm.iprobe(0, 2, DType::float64)); });
    require(error.code() == ErrorCode::invalid_argument, error.what());
    require(error_of([&] { static_cast<void>(comm.iprobe(1)); }).code() == ErrorCode::invalid_argument, "no such rank");
    comm.recv(data, 0, 2);
  });
}

// What they sent before is found; that nothing else will come is no error of somebody who only asks.
TEST_P(Iprobe, GoesOnAfterOthersHaveLeft) {
  run(2, [](Communicator& comm) {
    int value = 3;
    if (comm.rank() == 1) return comm.send(one(value), 0, 4);
    require_received(poll(comm, kAnySource, 4), 1, 4, 1);
    comm.recv(one(value), 1, 4);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (std::chrono::steady_clock::now() < until) require(!comm.iprobe(1, kAnyTag), "nothing more");
  });
}

// With and without an async call beside it.
TEST_P(Iprobe, ADeadRankEndsThePolling) {
  if (GetParam() == Ranks::threads) GTEST_SKIP() << "a thread cannot be killed";
  for (const bool beside : {false, true}) {
    Options options;
    options.timeout = std::chrono::milliseconds(60'000);
    const auto ends = testing::run_ranks(
        GetParam(), 2,
        [&](Communicator& comm) {
          std::vector<int> data(1), never(1);
          comm.barrier();
          if (comm.rank() == 1) {
            comm.recv(data, 0);
            ::kill(::getpid(), SIGKILL);
          }
          Work under_way;
          if (beside) under_way = comm.recv_async(never, 1, 8);
          comm.send(data, 1);
          const Error error = error_of([&] { poll(comm, kAnySource, 9); });
          require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
        },
        options);
    EXPECT_TRUE(ends[0].ok()) << ends[0].message;
    EXPECT_EQ(ends[1].signal, SIGKILL);
  }
}

TEST_P(Iprobe, ARankThatGaveUpEndsThePolling) {
  run(3, [](Communicator& comm) {
    if (comm.rank() == 2) {
      comm.set_timeout(std::chrono::milliseconds(200));
      int value = 0;
      require(error_of([&] { comm.recv(one(value), 1, 1); }).code() == ErrorCode::timeout, "nobody sends");
      return;
    }
    const Error error = error_of([&] { poll(comm, kAnySource, 9); });
    require(error.code() == ErrorCode::peer_failed, error.what());
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Iprobe, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
