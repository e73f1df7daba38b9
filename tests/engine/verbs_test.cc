// broadcast, send and recv, async calls in flight, and how bad calls and lost peers are told.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"
#include "engine/all_pairs.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

class Verbs : public ::testing::TestWithParam<Ranks> {};

TEST_P(Verbs, BroadcastFromEveryRoot) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto body = [](Communicator& comm) {
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{9'000}, std::size_t{100'003}}) {
        for (int root = 0; root < comm.size(); ++root) {
          std::vector<int> data(count, -1), sent(count);
          std::iota(sent.begin(), sent.end(), root);
          if (comm.rank() == root) data = sent;
          comm.broadcast(std::span(data), root);
          require(data == sent, std::to_string(count) + " from rank " + std::to_string(root));
        }
      }
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body));
  }
}

TEST_P(Verbs, MessagesBetweenAllPairsKeepTheirOrder) {
  const auto body = [](Communicator& comm) {
    const std::size_t counts[] = {1, 0, 5, 20'000, 3, 100'000};
    testing::exchange_between_all_pairs(comm, counts);
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 4, body));
}

TEST_P(Verbs, ManyAsyncCallsInFlightMixedWithBlockingOnes) {
  const auto body = [](Communicator& comm) {
    constexpr int kCalls = 23;  // more than the engine has tracks
    std::vector<std::vector<float>> data;
    for (int i = 0; i < kCalls; ++i)
      data.emplace_back(i % 3 == 0 ? 7 : 30'000 + i, static_cast<float>(comm.rank() + i));
    std::vector<Work> works;
    for (auto& vector : data) {
      works.push_back(comm.all_reduce_async(vector));
      if (works.size() % 5 == 0) {
        std::vector<float> token(1, 1.0f);
        comm.all_reduce(std::span(token));
        require(token[0] == static_cast<float>(comm.size()), "blocking call in between");
      }
    }
    while (!works.front().test()) {
    }
    for (std::size_t i = works.size(); i-- > 0;) works[i].wait();  // in another order than they were started
    for (int i = 0; i < kCalls; ++i) {
      const auto p = static_cast<float>(comm.size());
      for (const float value : data[static_cast<std::size_t>(i)])
        require(value == p * (p - 1) / 2 + p * static_cast<float>(i), "call " + std::to_string(i));
    }
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, body));
}

// Nobody may block in an async call, however many there are: rank 1 starts its collectives only after rank 0's message.
TEST_P(Verbs, AsyncCallsNeverBlockTheCaller) {
  const auto body = [](Communicator& comm) {
    std::vector<std::vector<float>> data(20, std::vector<float>(5000, 1.0f));
    std::vector<Work> works;
    float token = 0;
    if (comm.rank() == 1) comm.recv(one(token), 0);
    for (auto& vector : data) works.push_back(comm.all_reduce_async(vector));
    if (comm.rank() == 0) comm.send(one(token), 1);
    for (Work& work : works) work.wait();
    for (const auto& vector : data) require(vector[4999] == 2.0f, "sum");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body));
}

TEST_P(Verbs, AMissingRankIsNamedAfterTheDeadline) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{50'000}}) {
    const auto body = [&](Communicator& comm) {
      std::vector<float> data(count, 1.0f);
      if (comm.rank() == 2) {
        // Stays in the group, but makes no call until the others have given up.
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return;
      }
      try {
        comm.all_reduce(std::span(data));
        require(false, "a call without rank 2 must not return");
      } catch (const Error& error) {
        require(error.code() == ErrorCode::timeout || error.code() == ErrorCode::peer_failed, error.what());
        require(error.peer() == 2 && std::string(error.what()).find("rank 2") != std::string::npos, error.what());
      }
      try {
        comm.all_reduce(std::span(data));
        require(false, "an aborted communicator must refuse");
      } catch (const Error& error) {
        require(error.code() == ErrorCode::aborted, error.what());
      }
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), 3, body, testing::impatient(300)));
  }
}

TEST_P(Verbs, DifferentCallsAreAMismatch) {
  Options options;
  options.timeout = std::chrono::seconds(20);  // a difference is found, not waited out
  for (const std::size_t count : {std::size_t{4}, std::size_t{50'000}}) {
    const auto body = [&](Communicator& comm) {
      std::vector<float> data(count + static_cast<std::size_t>(comm.rank()), 1.0f);
      try {
        comm.all_reduce(std::span(data));
        require(false, "different counts must not pass");
      } catch (const Error& error) {
        require(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::peer_failed, error.what());
      }
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body, options));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Verbs, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  throw std::runtime_error("the call was accepted");
}

TEST(BadCalls, AreRefusedBeforeAnythingMoves) {
  const auto body = [](Communicator& comm) {
    std::vector<float> data(100, 1.0f);
    const auto refused = [&](ErrorCode code, const std::function<void()>& call, const char* what) {
      require(code_of(call) == code, what);
    };
    refused(
        ErrorCode::invalid_argument, [&] { comm.run(testing::all_reduce_of(nullptr, data.data(), 4, DType::float32)); },
        "null input");
    refused(
        ErrorCode::invalid_argument,
        [&] { comm.run(testing::all_reduce_of(data.data(), data.data() + 1, 4, DType::float32)); }, "overlap");
    refused(
        ErrorCode::invalid_argument,
        [&] {
          comm.run(
              testing::all_reduce_of(reinterpret_cast<char*>(data.data()) + 1, data.data() + 50, 4, DType::float32));
        },
        "misaligned");
    refused(
        ErrorCode::unsupported, [&] { comm.all_reduce(data, ReduceOp::bxor); }, "operator");
    refused(
        ErrorCode::invalid_argument, [&] { comm.broadcast(std::span(data).first(4), 2); }, "root");
    refused(
        ErrorCode::invalid_argument, [&] { comm.send(std::span(data).first(4), kAnySource); }, "a send needs a peer");
    refused(
        ErrorCode::invalid_argument, [&] { comm.recv(std::span(data).first(4), 2); }, "peer");
    refused(
        ErrorCode::invalid_argument, [&] { comm.recv(std::span(data).first(4), -2); }, "negative peer");
    refused(
        ErrorCode::invalid_argument, [&] { comm.send(std::span(data).first(4), 1, -1); }, "a send needs a tag");
    refused(
        ErrorCode::invalid_argument, [&] { comm.recv(std::span(data).first(4), 1, -2); }, "tag");
    refused(
        ErrorCode::invalid_argument, [&] { comm.probe(2); }, "peer of a probe");
    refused(
        ErrorCode::invalid_argument,
        [&] { comm.send_recv(std::span(data).first(4), 1, std::span(data).subspan(3, 4), 1); }, "overlap of a message");
    refused(
        ErrorCode::invalid_argument, [&] { comm.set_timeout(std::chrono::milliseconds(0)); }, "no time at all");
    refused(
        ErrorCode::invalid_argument, [&] { comm.set_timeout(std::chrono::milliseconds::min()); }, "negative time");
    refused(
        ErrorCode::invalid_argument, [&] { comm.allocate_bytes(~std::size_t{0} / 2); }, "more than can be shared");
    const std::vector<std::size_t> counts{60, 40}, at{0, 10};
    refused(
        ErrorCode::invalid_argument,
        [&] {
          const auto own = static_cast<std::size_t>(comm.rank());
          comm.reduce_scatter_v(data, Parts{counts, at}, std::span(data).subspan(at[own], counts[own]));
        },
        "parts that overlap the own one in place");
    comm.all_reduce(std::span(data));
    require(data[0] == 2.0f, "the communicator still works");
  };
  testing::expect_all_ok(run_threads(2, body));
}

TEST(BadCalls, UnknownAlgorithmNamesTheKnownOnes) {
  Options options;
  options.algorithm = "quantum";
  const auto ends = run_threads(
      2, [](Communicator&) {}, options);
  EXPECT_NE(ends[0].message.find("recursive_doubling"), std::string::npos) << ends[0].message;
  options.algorithm = "ring";
  EXPECT_NE(run_threads(
                2, [](Communicator&) {}, options)[0]
                .message.find("deterministic"),
            std::string::npos);
  EXPECT_THROW(run_threads(0, [](Communicator&) {}), Error);
}

}  // namespace
}  // namespace tutti
