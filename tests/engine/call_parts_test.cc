// Large calls over TCP in parts, by several threads of each rank: every verb and algorithm gives what it gives in one
// piece, beside other calls, and what goes wrong in any part is told as of one call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "effort.h"
#include "schedule/algorithms/lower_row.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using testing::Case;
using testing::error_of;
using ::testing::HasSubstr;
using testing::Model;
using testing::Ranks;
using testing::require;

// Elements of a vector, or of all chunks together, that go in two parts and in four, and are cut into no even ones.
constexpr std::size_t kInTwo = 600'011, kElements = 1'100'003;

Options in_parts(std::string algorithm = "") {
  Options options;
  options.tcp_threads = 4;
  options.timeout = std::chrono::seconds(30);
  options.algorithm = std::move(algorithm);
  return options;
}

void run(int ranks, const RankFunction& body, const Options& options = in_parts()) {
  testing::expect_all_ok(testing::run_ranks(Ranks::tcp, ranks, body, options));
}

std::size_t threads_here() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Entries("/proc/self/task"), Entries()));
}

void try_all(Communicator& comm, Verb verb, DType type, std::size_t elements, bool also_in_place = true) {
  Model model(type, comm.size(), elements);
  testing::OrdinaryAreas areas(testing::area_bytes(elements * size_of(type)));
  const std::size_t count = testing::takes_chunks(verb) ? elements / static_cast<std::size_t>(comm.size()) : elements;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::premul_sum}) {
    if (op != ReduceOp::sum && (!testing::reduces(verb) || !testing::has_operator(verb, type, op))) continue;
    for (const bool in_place : {false, true}) {
      if (in_place && !also_in_place) continue;
      testing::run_case(comm, model, {verb, type, op, count, comm.size() - 1, in_place}, areas.areas(), 0);
    }
  }
}

TEST(Parts, TakeThreadsForLargeCallsAlone) {
  for (const int threads : {1, 2, 4}) {
    Options options = in_parts();
    options.tcp_threads = threads;
    run(
        2,
        [threads](Communicator& comm) {
          std::vector<float> data(kElements, 1);
          comm.all_reduce(std::span(data).first(1000));
          const std::size_t before = threads_here();
          const auto require_more = [&](std::size_t elements, int more) {
            comm.all_reduce(std::span(data).first(elements));
            require(threads_here() == before + static_cast<std::size_t>(more),
                    std::to_string(threads_here() - before) + " threads more after " + std::to_string(elements));
          };
          require_more(500'000, 0);  // of less than 2 MB
          require_more(kInTwo, std::min(threads, 2) - 1);
          require_more(kElements, threads - 1);
          require(data[0] == 16 && data[kElements - 1] == 2, "sums");
        },
        options);
  }
}

TEST(Parts, OptionsThatNoRankCanHaveAreRefused) {
  for (const int threads : {-1, 5}) {
    Options options;
    options.tcp_threads = threads;
    const Error error = error_of([&] {
      static_cast<void>(run_threads(
          1, [](Communicator&) {}, options));
    });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("Options::tcp_threads is " + std::to_string(threads)));
  }
}

class PartsOf : public ::testing::TestWithParam<Verb> {};

TEST_P(PartsOf, GiveWhatTheVerbPromises) {
  for (const int ranks : {3, 2}) {
    if (testing::kSanitized && ranks == 2) continue;
    run(ranks, [](Communicator& comm) {
      try_all(comm, GetParam(), DType::float32, kElements);
      if (!testing::kSanitized) try_all(comm, GetParam(), DType::int64, kInTwo / 2);
    });
  }
}

// By name, so that none is left out that is chosen elsewhere only.
TEST_P(PartsOf, GoByEveryAlgorithm) {
  constexpr int kRanks = 4;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.verb != GetParam() || !schedule::only_sends(row) || row.single_copy || row.hierarchical) continue;
    if (!schedule::fits(row, kRanks) || !row.canonical() || !row.is_for_even()) continue;
    SCOPED_TRACE(row.name);
    run(
        kRanks,
        [&](Communicator& comm) {
          try_all(comm, GetParam(), DType::float32, kInTwo, row.in_place);
          require(comm.last_algorithm() == row.name, std::string(comm.last_algorithm()));
        },
        in_parts(std::string(name_of(row.verb)) + "=" + std::string(row.name)));
  }
}

INSTANTIATE_TEST_SUITE_P(, PartsOf,
                         ::testing::Values(Verb::all_reduce, Verb::broadcast, Verb::reduce, Verb::scatter, Verb::gather,
                                           Verb::all_gather, Verb::reduce_scatter, Verb::all_to_all, Verb::scan,
                                           Verb::exclusive_scan),
                         [](const auto& verb) { return std::string(name_of(verb.param)); });

// More than tracks, and of two groups that share threads.
TEST(Parts, ManyAreUnderWayAtOnce) {
  run(3, [](Communicator& comm) {
    Communicator turned = comm.split(0, -comm.rank());
    std::vector<std::vector<float>> data(9, std::vector<float>(kElements, 1));
    std::vector<float> small(10, 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<Work> works;
      for (std::size_t i = 0; i < data.size(); ++i) {
        std::ranges::fill(data[i], static_cast<float>(i + 1));
        works.push_back((i % 2 == 0 ? comm : turned).all_reduce_async(data[i]));
        if (i == 4) comm.all_reduce(std::span(small));
      }
      for (Work& work : works) work.wait();
      for (std::size_t i = 0; i < data.size(); ++i) {
        const auto sum = static_cast<float>(3 * (i + 1));
        require(std::ranges::all_of(data[i], [&](float x) { return x == sum; }), "sums of " + std::to_string(i));
      }
    }
  });
}

TEST(Parts, AreOneCallInTheWordsOfErrors) {
  testing::expect_all_ok(testing::run_ranks(
      Ranks::tcp, 3,
      [](Communicator& comm) {
        std::vector<float> data(kElements, 1);
        const std::size_t count = comm.rank() == 1 ? kElements - 1 : kElements;
        const Error error = error_of([&] { comm.all_reduce(std::span(data).first(count)); });
        require(error.code() == ErrorCode::mismatch, error.what());
        const std::string words = error.what();
        require(words.find("of 1100002 float32") != std::string::npos &&
                    words.find("of 1100003 float32") != std::string::npos,
                words);
      },
      in_parts()));
}

TEST(Parts, NameARankThatHasLeft) {
  run(3, [](Communicator& comm) {
    std::vector<float> data(kElements, 1);
    comm.all_reduce(std::span(data));
    if (comm.rank() == 2) return;
    const Error error = error_of([&] { comm.all_reduce(std::span(data)); });
    require(error.peer() == 2, error.what());
  });
}

// Again and again at another moment: the others are told who it was, and nobody writes to their buffers any more.
TEST(Parts, ARankThatIsKilledIsNamed) {
  for (int round = 0; round < 8; ++round) {
    const auto ends = testing::run_ranks(
        Ranks::tcp, 3,
        [round](Communicator& comm) {
          std::vector<float> data(8 * kElements, 1);
          comm.all_reduce(std::span(data));
          if (comm.rank() == 1) {
            Work work = comm.all_reduce_async(data);
            ::usleep(static_cast<useconds_t>(700 * round));
            ::kill(::getpid(), SIGKILL);
          }
          const Error error = error_of([&] {
            for (;;) comm.all_reduce(std::span(data));
          });
          require(error.peer() == 1, error.what());
          const std::vector<float> copy = data;
          ::usleep(20'000);
          require(copy == data, "somebody writes to the buffer of a call that has failed");
        },
        in_parts());
    EXPECT_EQ(ends[1].signal, SIGKILL);
    for (const int rank : {0, 2})
      EXPECT_TRUE(ends[static_cast<std::size_t>(rank)].ok()) << ends[static_cast<std::size_t>(rank)].message;
  }
}

TEST(Parts, AreGivenUpByAbort) {
  testing::expect_all_ok(testing::run_ranks(
      Ranks::tcp, 2,
      [](Communicator& comm) {
        std::vector<float> data(8 * kElements, 1);
        comm.all_reduce(std::span(data));
        std::thread aborts;
        if (comm.rank() == 0) {
          aborts = std::thread([&] {
            ::usleep(30'000);
            comm.abort();
          });
        }
        const Error error = error_of([&] {
          for (;;) comm.all_reduce(std::span(data));
        });
        if (aborts.joinable()) aborts.join();
        require(error.code() == ErrorCode::aborted || error.peer() == 0, error.what());
      },
      in_parts()));
}

}  // namespace
}  // namespace tutti
