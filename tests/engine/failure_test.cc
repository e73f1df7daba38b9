// What goes wrong between ranks: lost, late, out of step, leaving, or dropping things in the wrong order.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::impatient;
using testing::Ranks;
using testing::require;

bool names(const Error& error, int rank) {
  return std::string(error.what()).find("rank " + std::to_string(rank)) != std::string::npos;
}

class Failures : public ::testing::TestWithParam<Ranks> {
 protected:
  template <class How = Options>
  void run(int ranks, const RankFunction& body, const How& how = {}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, how));
  }
};

TEST_P(Failures, WaitingWithATimeoutLeavesTheCallAlone) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(5000, 1.0f), token(1);
    if (comm.rank() == 0) {
      Work work = comm.all_reduce_async(data);
      const Error error = error_of([&] { work.wait(std::chrono::milliseconds(30)); });
      require(error.code() == ErrorCode::timeout, error.what());
      comm.send(std::span(token).first(1), 1);  // only now rank 1 makes its call
      work.wait();
    } else {
      comm.recv(std::span(token).first(1), 0);
      comm.all_reduce(std::span(data));
    }
    require(data[4999] == 2.0f, "sum");
  });
}

// The fifth call queues behind the first; whether it starts before or after allocate() must not matter.
TEST_P(Failures, AllocatingBesideQueuedCallsChangesNoChoice) {
  for (int round = 0; round < 20; ++round) {
    run(
        2,
        [](Communicator& comm) {
          std::vector<std::vector<float>> data(9, std::vector<float>(1000, 1.0f));
          std::vector<Work> works;
          for (auto& vector : data) works.push_back(comm.all_reduce_async(vector));
          const Symmetric<float> memory = comm.allocate<float>(1000);
          for (Work& work : works) work.wait();
          for (const auto& vector : data) require(vector[999] == 2.0f, "sum");
          memory[0] = 1.0f;
          comm.all_reduce(memory.span());
          require(memory[0] == 2.0f, "symmetric sum");
        },
        impatient(10'000));
  }
}

TEST_P(Failures, RanksOutOfStepAreToldEvenIfTheirCallsLookAlike) {
  run(
      2,
      [](Communicator& comm) {
        std::vector<float> data(4, 1.0f), extra(4, 1.0f);
        Work orphan;
        if (comm.rank() == 0)
          orphan = comm.broadcast_async(std::span(extra).first(4), 0);  // rank 1 never makes this call
        const Error error = error_of([&] {
          for (int i = 0; i < 8; ++i) comm.all_reduce(std::span(data));
        });
        require(error.code() != ErrorCode::aborted, error.what());
      },
      impatient(500));
}

TEST_P(Failures, ARankThatThrowsIsNotWaitedFor) {
  const auto ends = testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    std::vector<float> data(100, 1.0f);
    comm.all_reduce(std::span(data));
    if (comm.rank() == 1) throw std::runtime_error("the user's own trouble");
    const Error error = error_of([&] { comm.all_reduce(std::span(data)); });
    require(error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::peer_failed, error.what());
    require(error.peer() == 1 && names(error, 1), error.what());
  });  // with the default timeout of a minute: this test would take as long
  EXPECT_TRUE(ends[0].ok()) << ends[0].message;
  EXPECT_EQ(ends[1].message, "the user's own trouble");
  EXPECT_TRUE(ends[2].ok()) << ends[2].message;
}

// Rank 0 waits for rank 1 only, and so hears of rank 2 from it.
TEST_P(Failures, WhoHearsOfARankThatLeftSaysThatItLeft) {
  run(3, [](Communicator& comm) {
    if (comm.rank() == 2) return;
    std::vector<float> data(1);
    const Error error = error_of([&] { comm.recv(std::span(data), comm.rank() + 1); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 2, error.what());
    const std::string than = comm.rank() == 0 ? "rank 1 (" : "this rank (";
    const std::string words = "rank 2 has left the group: it made fewer calls than " + than;
    require(std::string(error.what()).find(words) != std::string::npos, error.what());
  });
}

TEST_P(Failures, ARankMayLeaveWhenItsPartIsDone) {
  for (int round = 0; round < 20; ++round) {
    run(
        4,
        [](Communicator& comm) {
          std::vector<float> data(3, static_cast<float>(comm.rank()));
          comm.broadcast(std::span(data), 0);
          if (comm.rank() != 0) require(data[0] == 0.0f, "broadcast");
        },
        impatient(5000));
  }
}

TEST_P(Failures, AForkedChildThatEndsLeavesItsRankInTheGroup) {
  if (GetParam() == Ranks::threads) GTEST_SKIP() << "a child of one thread among many may do next to nothing";
  run(
      2,
      [](Communicator& comm) {
        std::vector<float> data(100'000, 1.0f);
        comm.barrier_async().wait();  // the rank has a thread for async calls, which its child has not
        if (comm.rank() == 1) {
          const Work sent = comm.send_async(data, 0);
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the message lies in the socket
          const pid_t child = ::fork();
          if (child == 0) {
            { const Communicator gone = std::move(comm); }
            ::_exit(0);
          }
          ::waitpid(child, nullptr, 0);
          std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 1 waits for this one
          std::fill(data.begin(), data.end(), 0.0f);
          comm.recv(data, 1);
        }
        comm.all_reduce(std::span(data));
        require(data.front() == 2.0f && data.back() == 2.0f, "nothing is missing");
      },
      impatient(5000));
}

// A message gets its number when it is sent, which this one is not.
TEST_P(Failures, AMessageThatIsRefusedHasNoNumber) {
  if (GetParam() == Ranks::tcp) GTEST_SKIP() << "the message may leave before this rank hears that the other gave up";
  run(2, [](Communicator& comm) {
    Communicator lost = comm.duplicate();
    std::vector<float> data(1);
    if (comm.rank() == 0) {
      lost.set_timeout(std::chrono::milliseconds(50));
      error_of([&] { lost.recv(data, 1); });
      comm.send(data, 1);
      return;
    }
    comm.recv(data, 0);
    const std::string words = error_of([&] { lost.send(data, 0); }).what();
    require(words.starts_with("rank 1, send_recv of 1 float32 from rank 1 to rank 0: "), words);
  });
}

TEST_P(Failures, ATimeoutIsThatOfTheCall) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(4, 1.0f), message(1);
    const auto require_own = [&](Work& work) {
      const Error error = error_of([&] { work.wait(); });
      const bool says_so = std::string(error.what()).find("nothing moved for 150 ms") != std::string::npos;
      require(error.code() == ErrorCode::timeout && says_so, error.what());
    };
    for (const bool collective : {true, false}) {
      Communicator other = comm.duplicate();
      if (comm.rank() == 0) {
        other.set_timeout(std::chrono::milliseconds(150));
        Work work = collective ? other.all_reduce_async(data) : other.recv_async(message, 1);
        other.set_timeout(std::chrono::milliseconds(70'000));
        require_own(work);
      }
      comm.barrier();
    }
  });
}

// Rank 0's operator throws on the progress thread while the caller goes on submitting calls that follow on that track.
TEST_P(Failures, CallsMayBeSubmittedWhileOneFails) {
  run(2, [](Communicator& comm) {
    std::vector<std::vector<int>> data(3 * 4, std::vector<int>(1, 1));
    std::atomic<bool> entered{false}, submitted{false};  // relaxed: they are to order nothing else
    const auto combine = [&, throws = comm.rank() == 0](const int& left, const int& right) {
      entered.store(true, std::memory_order_relaxed);
      while (throws && !submitted.load(std::memory_order_relaxed)) std::this_thread::yield();
      if (throws) throw std::runtime_error("no sum");
      return left + right;
    };
    std::vector<Work> works;
    works.push_back(comm.all_reduce_async(data.front(), Op::of<int>(combine)));
    if (comm.rank() == 1) {
      const Error error = error_of([&] {
        for (std::size_t i = 1; i < data.size(); ++i) works.push_back(comm.all_reduce_async(data[i]));
        wait_all(works);
      });
      require(error.code() == ErrorCode::peer_failed && error.peer() == 0, error.what());
      return;
    }
    while (!entered.load(std::memory_order_relaxed)) std::this_thread::yield();
    for (std::size_t i = 1; i < data.size(); ++i) works.push_back(comm.all_reduce_async(data[i]));
    submitted.store(true, std::memory_order_relaxed);
    for (Work& work : works) {
      const Error error = error_of([&] { work.wait(); });
      const std::string words = error.what();
      require(error.code() == ErrorCode::invalid_argument && words.find("no sum") != std::string::npos, words);
      require((words.find("was given up") != std::string::npos) == (&work != &works.front()), words);
    }
  });
}

TEST_P(Failures, AStuckCallIsToldWhileOthersMove) {
  run(
      2,
      [](Communicator& comm) {
        std::vector<float> data(4, 1.0f), never(1);
        Work stuck = comm.recv_async(std::span(never).first(1), 1 - comm.rank());
        const Error error = error_of([&] {
          for (;;) {
            comm.all_reduce(std::span(data));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        });
        require(names(error, 1 - comm.rank()), error.what());
      },
      impatient(300));
}

// The broadcast is under way when a message fails that has nothing to do with it. Down a tree, because rank 2 never
// joins: other ways write nothing before all ranks are there.
TEST_P(Failures, ACallThatFailsWithAnotherSaysWhatBecameOfItsOwnOutput) {
  Options options;
  options.algorithm = "broadcast=binomial";
  const auto body = [](Communicator& comm) {
    constexpr std::size_t kMany = 8 << 20;  // more than any transport takes without being read
    std::vector<float> data(comm.rank() < 2 ? kMany : 4, comm.rank() == 0 ? 5.0f : 0.0f), message(8, 7.0f);
    Work under_way;
    if (comm.rank() < 2) under_way = comm.broadcast_async(data, 0);
    error_of([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (comm.rank() == 0) comm.send(std::span(message).first(8), 1);
      if (comm.rank() == 1) comm.recv(std::span(message).first(4), 0);
      comm.recv(std::span(message).first(1), comm.rank() == 2 ? 0 : 2);
    });
    if (comm.rank() != 1) return;
    const std::string words = error_of([&] { under_way.wait(); }).what();
    require(data.front() == 5.0f && data.back() == 0.0f, "a part has come");
    require(words.starts_with("broadcast #0 of ") && words.find("its output is undefined") != std::string::npos, words);
  };
  run(3, body, options);
}

TEST_P(Failures, AFailedAllocationEndsTheCommunicator) {
  run(
      2,
      [](Communicator& comm) {
        // Rank 0 may get its memory before rank 1 complains, but then its next call fails.
        const Error error = error_of([&] {
          const Symmetric<float> memory = comm.allocate<float>(comm.rank() == 0 ? 100'000 : 200'000);
          comm.all_reduce(memory.span());
        });
        const Error later = error_of([&] { comm.allocate<float>(10); });
        require(later.code() == ErrorCode::aborted, later.what());
        require(error.code() != ErrorCode::aborted, error.what());
      },
      impatient(2000));
}

TEST_P(Failures, EndlessPatienceIsAllowed) {
  Options options;
  options.timeout = std::chrono::milliseconds::max();
  run(
      2,
      [](Communicator& comm) {
        std::vector<float> data(50'000, 1.0f);
        for (int i = 0; i < 50; ++i) comm.all_reduce(std::span(data));
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Transports, Failures, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

// The system finds it when it sends: no peer is to blame, and none is named.
TEST(Buffers, ThatAreNoMemoryAreTheCallersFault) {
  const auto ends = testing::run_ranks(Ranks::tcp, 2, [](Communicator& comm) {
    constexpr std::size_t kCount = 250'000;
    std::vector<float> here(kCount);
    void* const nothing = ::mmap(nullptr, kCount * sizeof(float), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::span<float> buffer(comm.rank() == 0 ? static_cast<float*>(nothing) : here.data(), kCount);
    const Error error = error_of([&] { comm.broadcast(buffer, 0); });
    const std::string words = error.what();
    if (comm.rank() == 0) {
      require(error.code() == ErrorCode::invalid_argument && error.peer() == -1, words);
      require(words.find("the buffer that this rank sends from is no memory") != std::string::npos, words);
    } else {
      require(error.code() == ErrorCode::peer_failed && error.peer() == 0, words);
      require(words.find("rank 0 gave up after an error") != std::string::npos, words);
    }
  });
  testing::expect_all_ok(ends);
}

// Takes every epoll of this process away, as a program does that closes descriptors it does not own.
void break_epolls() {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry.path(), gone).string();
    if (what.find("[eventpoll]") != std::string::npos) ::dup2(nothing, std::stoi(entry.path().filename()));
  }
}

TEST(ControlPlane, ThatFailsIsAnErrorInWordsAndNotTheEndOfTheProcess) {
  const auto ends = testing::run_ranks(Ranks::tcp, 2, [](Communicator& comm) {
    std::vector<int> data(1);
    if (comm.rank() == 1) break_epolls();
    const Error error = error_of([&] { comm.recv(data, 1 - comm.rank()); });
    const std::string words = error.what();
    if (comm.rank() == 1) {
      require(error.code() == ErrorCode::system && error.peer() == -1, words);
      require(words.find("its control plane has failed: epoll") != std::string::npos, words);
    } else {
      require(error.peer() == 1, words);
    }
  });
  testing::expect_all_ok(ends);
}

TEST(ManyRanks, MoreThanAWordOfThem) {
  constexpr int kRanks = 70;
  testing::expect_all_ok(run_threads(kRanks, [](Communicator& comm) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
      std::vector<std::int64_t> data(count, comm.rank());
      comm.all_reduce(std::span(data));
      for (const std::int64_t value : data) require(value == kRanks * (kRanks - 1) / 2, "sum");
    }
  }));
}

TEST(Sizes, BeyondAllMemoryAreRefused) {
  testing::expect_all_ok(run_threads(1, [](Communicator& comm) {
    float one = 1.0f;
    const Error call =
        error_of([&] { comm.run(testing::all_reduce_of(&one, &one, std::size_t{1} << 62, DType::float32)); });
    require(call.code() == ErrorCode::invalid_argument, call.what());
    const Error memory = error_of([&] { comm.allocate<float>(std::size_t{1} << 62); });
    require(memory.code() == ErrorCode::invalid_argument, memory.what());
  }));
}

}  // namespace
}  // namespace tutti
