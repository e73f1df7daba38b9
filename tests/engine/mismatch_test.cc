// Ranks that make different calls: each kind of difference is a typed error on every rank that says what each called,
// and says truly what became of the output.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

// One difference: what the odd rank out calls and what the others call, and a word of each that the error must contain.
struct Kind {
  std::string name;
  std::function<void(Communicator&, std::vector<float>&)> odd, even;
  std::string odd_words, even_words;
};

void sum(Communicator& comm, std::vector<float>& data) { comm.all_reduce(std::span(data)); }
void sum_of(Communicator& comm, std::vector<float>& data, std::size_t count) {
  comm.all_reduce(std::span(data).first(count));
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds{
      {"verb", [](auto& comm, auto& data) { comm.broadcast(std::span(data), 0); }, sum, "called broadcast",
       "called all_reduce"},
      {"count", [](auto& comm, auto& data) { sum_of(comm, data, data.size() - 1); }, sum, "of 39999 float32",
       "of 40000 float32"},
      {"program", [](auto& comm, auto& data) { sum_of(comm, data, 3); }, sum, "of 3 float32", "of 40000 float32"},
      {"nothing", [](auto& comm, auto& data) { sum_of(comm, data, 0); }, sum, "of 0 float32", "of 40000 float32"},
      {"type",
       [](auto& comm, auto& data) {
         comm.run(testing::all_reduce_of(data.data(), data.data(), data.size(), DType::int32));
       },
       sum, "40000 int32", "40000 float32"},
      {"operator", [](auto& comm, auto& data) { comm.all_reduce(std::span(data), ReduceOp::maximum); }, sum, "maximum",
       "sum"},
      {"scaled", [](auto& comm, auto& data) { comm.all_reduce(data, Op::premul_sum(2.0)); }, sum, "premul_sum",
       "40000 float32, sum"},
      {"root", [](auto& comm, auto& data) { comm.broadcast(std::span(data), 1); },
       [](auto& comm, auto& data) { comm.broadcast(std::span(data), 0); }, "root 1", "root 0"},
      {"order",
       [](auto& comm, auto& data) {
         comm.broadcast(std::span(data), 0);
         comm.all_reduce(std::span(data));
       },
       [](auto& comm, auto& data) {
         comm.all_reduce(std::span(data));
         comm.broadcast(std::span(data), 0);
       },
       "broadcast #1", "all_reduce #1"},
      {"small", [](auto& comm, auto& data) { sum_of(comm, data, 5); },
       [](auto& comm, auto& data) { sum_of(comm, data, 7); }, "of 5 float32", "of 7 float32"},
  };
  return kKinds;
}

struct Case {
  Ranks ranks;
  int size;
  std::size_t kind;
  Check check;
};

class Mismatch : public ::testing::TestWithParam<Case> {};

// Calls `call`, then something all ranks would agree on: a rank whose call ended before the difference was found must
// hear of it there at the latest. Returns the error and whether the first call itself failed.
Error provoke(Communicator& comm, const std::function<void()>& call, bool* first) {
  *first = true;
  try {
    call();
    *first = false;
    std::vector<float> next(1, 1.0f);
    comm.all_reduce(std::span(next));
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("two calls succeeded");
}

void check_rank(Communicator& comm, const Kind& kind, Check check, int odd_rank) {
  std::vector<float> agreed(10, 1.0f);
  comm.all_reduce(std::span(agreed));
  std::vector<float> data(40'000);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(comm.rank() + 1) + static_cast<float>(i % 7);
  const std::vector<float> before = data;
  const bool odd = comm.rank() == odd_rank;
  bool first = false;
  const Error error = provoke(
      comm, [&] { (odd ? kind.odd : kind.even)(comm, data); }, &first);
  const std::string words = error.what();
  require(error.code() == ErrorCode::mismatch, words);
  require(words.find(kind.odd_words) != std::string::npos, "what the odd rank called: " + words);
  require(words.find(kind.even_words) != std::string::npos, "what the others called: " + words);
  // A rank that has no core for long is not waited for; where all are named, the odd one is to blame.
  const bool all_named = words.find("ranks 0") != std::string::npos || words.find("ranks 1") != std::string::npos;
  if (comm.size() > 2 && all_named) {
    require(error.peer() == odd_rank, "rank " + std::to_string(error.peer()) + " is blamed: " + words);
  }
  const bool intact = words.find("is as it was") != std::string::npos;
  require(intact || words.find("is undefined") != std::string::npos, "what became of the output: " + words);
  if (first && intact) require(data == before, "the output was said to be as it was: " + words);
  if (check == Check::full) require(intact && data == before, "with full checks: " + words);
  // Two ranks are each other's neighbours, whatever the algorithm.
  if (first && comm.size() == 2) require(intact, "adjacent to the difference: " + words);
  bool again = false;
  const Error later = provoke(
      comm, [&] { sum(comm, data); }, &again);
  require(again && later.code() == ErrorCode::aborted, later.what());
}

TEST_P(Mismatch, IsToldByEveryRank) {
  const Case& test = GetParam();
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);  // a difference is found, not waited out
  options.check = test.check;
  for (const int odd_rank : {0, test.size - 1}) {
    const auto started = std::chrono::steady_clock::now();
    testing::expect_all_ok(testing::run_ranks(
        test.ranks, test.size, [&](Communicator& comm) { check_rank(comm, kinds()[test.kind], test.check, odd_rank); },
        options));
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10)) << "waited out";
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Ranks ranks : testing::kAllRanks) {
    for (const int size : {2, 3, 4}) {
      for (std::size_t kind = 0; kind < kinds().size(); ++kind) {
        for (const Check check : {Check::quick, Check::full}) all.push_back({ranks, size, kind, check});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mismatch, ::testing::ValuesIn(cases()), [](const auto& test) {
  return testing::name_of(test.param.ranks) + "_" + std::to_string(test.param.size) + "_" +
         kinds()[test.param.kind].name + (test.param.check == Check::full ? "_full" : "");
});

// Every call that the channel has seen before changed its output; this one does not get so far.
class LateMismatch : public ::testing::TestWithParam<Ranks> {};

TEST_P(LateMismatch, FullChecksSayThatTheOutputIsAsItWas) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  options.check = Check::full;
  testing::expect_all_ok(testing::run_ranks(
      GetParam(), 3,
      [](Communicator& comm) {
        std::vector<float> data(1000, 1.0f);
        for (int call = 0; call < 8; ++call) sum(comm, data);
        const std::vector<float> before = data;
        bool first = false;
        const Error error = provoke(
            comm, [&] { sum_of(comm, data, comm.rank() == 1 ? 999 : 1000); }, &first);
        const std::string words = error.what();
        require(error.code() == ErrorCode::mismatch && first && data == before, words);
        require(words.find("is as it was") != std::string::npos, words);
      },
      options));
}

// It has nothing to write, but a barrier that ends says that all are there.
TEST_P(LateMismatch, ABarrierDoesNotEndWhereOthersAreElsewhere) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  for (const std::size_t count : {3u, 40'000u, 500'000u}) {
    testing::expect_all_ok(testing::run_ranks(
        GetParam(), 3,
        [count](Communicator& comm) {
          std::vector<float> data(count, 1.0f);
          sum(comm, data);
          const bool odd = comm.rank() == 1;
          bool first = false;
          const Error error = provoke(
              comm, [&] { odd ? comm.barrier() : sum(comm, data); }, &first);
          const std::string words = error.what();
          require(error.code() == ErrorCode::mismatch && (first || !odd), words);
          require(words.find("called barrier #1") != std::string::npos, words);
          require(words.find("called all_reduce #1") != std::string::npos, words);
        },
        options));
  }
}

// What is copied straight out of the sender's memory is not copied where it belongs to another call.
TEST_P(LateMismatch, ASingleCopyThatIsRefusedLeavesTheOutputAsItWas) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  if (GetParam() != Ranks::tcp) options.algorithm = "broadcast=single_copy";
  const auto body = [](Communicator& comm) {
    std::vector<float> data(40'000, static_cast<float>(comm.rank()));
    const std::size_t count = comm.rank() == 0 ? data.size() : data.size() - 1;
    bool first = false;
    const Error error = provoke(
        comm, [&] { comm.broadcast(std::span(data).first(count), 0); }, &first);
    const std::string words = error.what();
    require(error.code() == ErrorCode::mismatch && (first || comm.rank() == 0), words);
    require(data.front() == static_cast<float>(comm.rank()) && data[count - 1] == data.front(), "the output");
    require(words.find("is as it was") != std::string::npos, words);
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body, options));
}

// No chunk has anything in it whose length could differ.
TEST_P(LateMismatch, EmptyChunksOfDifferentTypesDifferInTheirTypes) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  const auto body = [](Communicator& comm) {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()));
    const Parts nothing{counts};
    std::vector<float> floats, other_floats;
    std::vector<std::int32_t> integers, other_integers;
    bool first = false;
    const Error error = provoke(
        comm,
        [&] {
          if (comm.rank() == 1) comm.all_to_all_v(integers, nothing, other_integers, nothing);
          if (comm.rank() != 1) comm.all_to_all_v(floats, nothing, other_floats, nothing);
        },
        &first);
    const std::string words = error.what();
    require(error.code() == ErrorCode::mismatch, words);
    require(words.find("of int32") != std::string::npos && words.find("of float32") != std::string::npos, words);
  };
  for (const int ranks : {2, 3}) testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
}

INSTANTIATE_TEST_SUITE_P(Transports, LateMismatch, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

// Symmetric memory is a call like others.
class AllocationMismatch : public ::testing::TestWithParam<Ranks> {};

void expect_told(Ranks ranks, int size, const std::function<void(Communicator&)>& call,
                 std::initializer_list<std::string> all_words) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  const auto started = std::chrono::steady_clock::now();
  testing::expect_all_ok(testing::run_ranks(
      ranks, size,
      [&](Communicator& comm) {
        const Error error = testing::error_of([&] { call(comm); });
        require(error.code() == ErrorCode::mismatch, error.what());
        for (const std::string& words : all_words)
          require(std::string(error.what()).find(words) != std::string::npos, "'" + words + "': " + error.what());
      },
      options));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10)) << "waited out";
}

TEST_P(AllocationMismatch, AgainstAnotherCallIsToldByEveryRank) {
  for (const int size : {2, 3}) {
    expect_told(GetParam(), size,
                [](Communicator& comm) {
                  std::vector<float> data(100, 1.0f);
                  sum(comm, data);
                  if (comm.rank() == 1) comm.allocate_bytes(4096);
                  sum(comm, data);
                  sum(comm, data);
                },
                {"rank 1 called allocate #1 of 4096 bytes", "called all_reduce #1 of 100 float32"});
  }
}

TEST_P(AllocationMismatch, OfAnotherSizeIsToldByEveryRank) {
  expect_told(GetParam(), 3, [](Communicator& comm) { comm.allocate_bytes(comm.rank() == 2 ? 4096 : 8192); },
              {"rank 2 called allocate #0 of 4096 bytes", "ranks 0-1 called allocate #0 of 8192 bytes"});
}

TEST_P(AllocationMismatch, CallsBesideAnAllocationGoOn) {
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    std::vector<float> data(50'000, 1.0f);
    for (int round = 0; round < 6; ++round) {
      std::vector<Work> works;
      for (int i = 0; i < round; ++i) works.push_back(comm.all_reduce_async(data, ReduceOp::maximum));
      const auto memory = comm.allocate<float>(1000);
      wait_all(works);
      comm.all_reduce(memory);
      require(memory[999] == 0.0f && data[1] == 1.0f, "zeroed, and summed");
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, AllocationMismatch, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

// A send that waits for its receiver, which waits in a collective for the sender.
class CrossedMessage : public ::testing::TestWithParam<Ranks> {};

constexpr std::size_t kTooLargeToLeave = 8'000'000;  // more than a socket takes

TEST_P(CrossedMessage, IsToldByEveryRank) {
  for (const int size : {2, 3}) {
    expect_told(GetParam(), size,
                [](Communicator& comm) {
                  std::vector<float> data(kTooLargeToLeave, 1.0f), small(10, 1.0f);
                  sum(comm, small);
                  if (comm.rank() == 0) comm.send(data, 1, 7);
                  sum(comm, small);
                  sum(comm, small);
                },
                {"rank 0 called send_recv #0 of 8000000 float32 from rank 0 to rank 1, tag 7",
                 "called all_reduce #1 of 10 float32, sum"});
  }
}

// The same calls, where the receiver does not wait for the collective: slow, but right.
TEST_P(CrossedMessage, IsNoneWhereTheReceiverIsYetToReceive) {
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, [](Communicator& comm) {
    std::vector<float> data(kTooLargeToLeave, static_cast<float>(comm.rank())), small(10, 1.0f);
    if (comm.rank() == 0) {
      comm.send(data, 1, 7);
      sum(comm, small);
    } else {
      Work work = comm.all_reduce_async(small);
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // longer than a send waits before it is judged
      comm.recv(data, 0, 7);
      work.wait();
    }
    require(small[9] == 2.0f && data[1] == 0.0f, "both went through");
  }));
}

// A collective that its receiver gets through without the sender: rank 2 scatters late.
TEST_P(CrossedMessage, IsNoneWhereTheCollectiveNeedsAnotherRank) {
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    std::vector<float> data(kTooLargeToLeave, static_cast<float>(comm.rank())), parts(3, 5.0f), part(1);
    if (comm.rank() == 0) comm.send(data, 1, 7);
    if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    comm.scatter(std::span<const float>(parts).first(comm.rank() == 2 ? 3 : 0), part, 2);
    if (comm.rank() == 1) comm.recv(data, 0, 7);
    require(part[0] == 5.0f, "scattered");
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, CrossedMessage, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

// The two ends of a message.
class MessageMismatch : public ::testing::TestWithParam<Ranks> {};

TEST_P(MessageMismatch, IsToldByBothEnds) {
  Options options;
  options.timeout = std::chrono::milliseconds(20'000);
  testing::expect_all_ok(testing::run_ranks(
      GetParam(), 2,
      [](Communicator& comm) {
        std::vector<float> data(8, static_cast<float>(comm.rank()));
        bool first = false;
        const Error error = provoke(
            comm,
            [&] {
              if (comm.rank() == 0) comm.send(std::span<const float>(data), 1);
              if (comm.rank() == 1) comm.recv(std::span(data).first(4), 0);
            },
            &first);
        const std::string words = error.what();
        require(error.code() == ErrorCode::mismatch, words);
        require(words.find("of 8 float32") != std::string::npos, words);
        require(words.find("of 4 float32") != std::string::npos, words);
        require(data == std::vector<float>(8, static_cast<float>(comm.rank())), "the output is as it was");
      },
      options));
}

INSTANTIATE_TEST_SUITE_P(Transports, MessageMismatch, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
