// Fused and coalesced reductions: the bits of one all_reduce per tensor, in fewer operations, and errors that leave
// nothing under way.
#include "tutti/fusion.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

class Fused : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(int ranks, const RankFunction& body, const Options& options = {}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
  }
};

// Tensors of these lengths with values whose sum depends on the order of adding.
template <class T = float>
std::vector<std::vector<T>> tensors_of(const std::vector<std::size_t>& lengths, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::uniform_real_distribution<double> values(-1000, 1000);
  std::vector<std::vector<T>> tensors;
  for (const std::size_t length : lengths) {
    tensors.emplace_back(length);
    for (T& value : tensors.back()) value = static_cast<T>(values(random));
  }
  return tensors;
}

template <class T>
std::vector<std::vector<T>> reduced_one_by_one(Communicator& comm, std::vector<std::vector<T>> tensors, const Op& op) {
  for (auto& tensor : tensors) comm.all_reduce(tensor, op);
  return tensors;
}

template <class T>
void require_same_bits(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
  require(a.size() == b.size(), "tensors");
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i].size() == b[i].size() &&
                      (a[i].empty() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(T)) == 0);
    require(same, "bits of tensor " + std::to_string(i));
  }
}

const std::vector<std::size_t> kLengths{1, 0, 300, 7, 1000, 1023, 1024, 1025, 3, 0, 5000, 2, 64, 17, 511, 1, 1, 1};

TEST_P(Fused, BitsAreThoseOfOneCallPerTensor) {
  run(3, [](Communicator& comm) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{130}, std::size_t{8192}, std::size_t{1} << 20}) {
      for (const Op& op : {Op(ReduceOp::sum), Op(ReduceOp::average), Op::premul_sum(0.3 + comm.rank())}) {
        auto tensors = tensors_of(kLengths, comm.rank());
        const auto expected = reduced_one_by_one(comm, tensors, op);
        Fusion fusion(comm, bytes);
        for (int again = 0; again < 2; ++again) {
          auto copy = tensors;
          for (auto& tensor : copy) fusion.all_reduce(tensor, op);
          fusion.wait();
          require_same_bits(copy, expected);
        }
      }
    }
  });
}

// A half holds 1024 floats here.
TEST_P(Fused, OperationsAreFewAndSaidSo) {
  run(2, [](Communicator& comm) {
    Fusion fusion(comm, 8192);
    std::vector<std::vector<float>> tensors(100, std::vector<float>(100, 1.0f));
    for (auto& tensor : tensors) fusion.all_reduce(tensor);
    fusion.wait();
    require(fusion.operations() == 10, "ten in each of ten, not " + std::to_string(fusion.operations()));
    for (const auto& tensor : tensors) require(tensor.front() == 2.0f && tensor.back() == 2.0f, "sum");

    std::vector<float> half(1024, 1.0f), more(1025, 1.0f);
    fusion.all_reduce(half);
    fusion.all_reduce(more);  // where it is
    fusion.wait();
    require(fusion.operations() == 12 && half.back() == 2.0f && more.back() == 2.0f, "halves");

    fusion.wait();
    fusion.flush();
    require(fusion.operations() == 12, "nothing to do");
  });
}

TEST_P(Fused, ALargeTensorSharesNothingAndDisturbsNothing) {
  run(2, [](Communicator& comm) {
    Fusion fusion(comm, 8192);
    std::vector<float> small(10, 1.0f), large(100'000, 1.0f), last(10, 1.0f);
    fusion.all_reduce(small);
    fusion.all_reduce(large);
    fusion.all_reduce(last);
    fusion.wait();
    require(fusion.operations() == 2, "the small ones share one");
    require(small.back() == 2.0f && large.back() == 2.0f && last.back() == 2.0f, "sums");
  });
}

TEST_P(Fused, AnotherTypeOrOperatorStartsAnotherOperation) {
  run(3, [](Communicator& comm) {
    const float rank = static_cast<float>(comm.rank());
    std::vector<float> sum(5, rank), most(5, rank), scaled(5, rank), scaled_more(5, rank);
    std::vector<double> wide(5, rank);
    std::vector<std::int32_t> whole(5, comm.rank() + 1);
    struct Pair {
      float value;
      int owner;
    };
    std::vector<Pair> pairs(5, Pair{rank * (3 - rank), comm.rank()}), twins = pairs;  // 0, 2, 2
    const Op best = Op::of<Pair>([](const Pair& a, const Pair& b) { return b.value > a.value ? b : a; });
    Fusion fusion(comm, 4096);
    fusion.all_reduce(sum);
    fusion.all_reduce(most, ReduceOp::maximum);
    fusion.all_reduce(scaled, Op::premul_sum(2));
    fusion.all_reduce(scaled_more, Op::premul_sum(3));
    fusion.all_reduce(wide);
    fusion.all_reduce(whole, ReduceOp::product);
    require(fusion.operations() == 5, "each but the last has started");
    fusion.all_reduce(pairs, best);
    fusion.all_reduce(twins, best);
    fusion.flush();
    require(fusion.operations() == 7, "the pairs share one");
    fusion.wait();
    require(sum[4] == 3 && most[4] == 2 && scaled[4] == 6 && scaled_more[4] == 9, "float32");
    require(wide[4] == 3 && whole[4] == 6, "others");
    require(pairs[4].owner == 1 && twins[0].owner == 1 && twins[4].value == 2, "own type");
  });
}

TEST_P(Fused, WithOtherCallsBetween) {
  run(3, [](Communicator& comm) {
    const std::vector<std::size_t> lengths(40, 333);
    auto tensors = tensors_of(lengths, comm.rank());
    const auto expected = reduced_one_by_one(comm, tensors, ReduceOp::sum);
    Fusion fusion(comm, 8192);
    int calls = 0;
    for (auto& tensor : tensors) {
      fusion.all_reduce(tensor);
      int ranks = 1;
      if (++calls % 4 == 0) comm.all_reduce(one(ranks));
    }
    Fusion moved = std::move(fusion);
    moved.wait();
    require_same_bits(tensors, expected);
  });
}

TEST_P(Fused, TheEndWaits) {
  run(2, [](Communicator& comm) {
    std::vector<float> first(100, 1.0f), second(100, 1.0f), large(9000, 1.0f);
    {
      Fusion fusion(comm, 4096), other(comm, 4096);
      fusion.all_reduce(first);
      fusion.all_reduce(large);
      fusion = std::move(other);  // ends the first
      require(first.back() == 2.0f && large.back() == 2.0f, "ended");
      fusion.all_reduce(second);
    }
    require(second.back() == 2.0f, "second");
  });
}

TEST_P(Fused, WhatCannotBeReducedIsRefusedAndForgotten) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(10, 3.0f), good(10, 1.0f);
    Fusion fusion(comm, 4096);
    fusion.all_reduce(data, ReduceOp::bxor);
    const Error error = error_of([&] { fusion.wait(); });
    require(error.code() == ErrorCode::unsupported, error.what());
    require(
        error_of([&] { fusion.add(nullptr, 5, DType::float32, ReduceOp::sum); }).code() == ErrorCode::invalid_argument,
        "null");
    require(error_of([&] { fusion.add(data.data(), ~std::size_t{0}, DType::float32, ReduceOp::sum); }).code() ==
                ErrorCode::invalid_argument,
            "too many");
    fusion.all_reduce(good);
    fusion.wait();
    require(good.back() == 2.0f && data.back() == 3.0f && fusion.operations() == 1, "the rest goes on");
  });
}

TEST_P(Fused, AFailureLeavesNothingUnderWay) {
  Options options;
  options.timeout = std::chrono::seconds(20);  // a difference is found, not waited out
  run(
      2,
      [](Communicator& comm) {
        // Rank 1's second operation is another one than rank 0's.
        std::vector<std::vector<float>> tensors(8, std::vector<float>(500, 1.0f));
        std::vector<float> large(comm.rank() == 0 ? 20'000 : 30'000, 1.0f);
        Fusion fusion(comm, 4096);
        const Error error = error_of([&] {
          fusion.all_reduce(tensors[0]);
          fusion.all_reduce(large);
          for (std::size_t i = 1; i < tensors.size(); ++i) fusion.all_reduce(tensors[i]);
          fusion.wait();
        });
        require(error.code() == ErrorCode::mismatch, error.what());
        error_of([&] {  // whatever was not told yet
          fusion.wait();
          fusion.all_reduce(tensors[0]);
          fusion.wait();
        });
        fusion.wait();  // nothing is left
        for (const auto& tensor : tensors) require(tensor[0] == 1.0f || tensor[0] == 2.0f, "whole or untouched");
        require(error_of([&] { comm.barrier(); }).code() == ErrorCode::aborted, "the communicator has failed");
      },
      options);
}

// Rank 1 leaves with tensors added and not started; it must not begin a collective that nobody else comes to.
TEST_P(Fused, AnExceptionStartsNothing) {
  const auto ends = testing::run_ranks(GetParam(), 2, [](Communicator& comm) {
    std::vector<float> data(10, 1.0f);
    Fusion fusion(comm, 4096);
    if (comm.rank() == 1) {
      fusion.all_reduce(data);
      throw std::runtime_error("the user's own trouble");
    }
    const Error error = error_of([&] { comm.barrier(); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
  });
  EXPECT_TRUE(ends[0].ok()) << ends[0].message;
  EXPECT_EQ(ends[1].message, "the user's own trouble");
}

TEST_P(Fused, CoalescedInOneOperation) {
  run(3, [](Communicator& comm) {
    for (const auto& lengths : {kLengths, std::vector<std::size_t>{}, std::vector<std::size_t>{0, 0},
                                std::vector<std::size_t>{0, 4000, 0}, std::vector<std::size_t>{70'000, 1}}) {
      auto tensors = tensors_of(lengths, comm.rank());
      const auto expected = reduced_one_by_one(comm, tensors, ReduceOp::average);
      all_reduce_coalesced(comm, tensors, ReduceOp::average);
      require_same_bits(tensors, expected);
    }
    auto halves = tensors_of<std::int16_t>(kLengths, comm.rank());
    const auto expected = reduced_one_by_one(comm, halves, ReduceOp::maximum);
    std::vector<std::span<std::int16_t>> spans(halves.begin(), halves.end());
    all_reduce_coalesced(comm, std::span(spans), ReduceOp::maximum);
    require_same_bits(halves, expected);
  });
}

TEST_P(Fused, CoalescedRefusesWhatIsNoTensor) {
  run(2, [](Communicator& comm) {
    float value = 1.0f;
    void* const tensors[] = {&value, nullptr};
    const std::size_t counts[] = {1, 2}, enough[] = {1, 0};
    const auto call = [&](std::span<const std::size_t> lengths) {
      all_reduce_coalesced(comm, tensors, lengths, DType::float32, ReduceOp::sum);
    };
    require(error_of([&] { call(counts); }).code() == ErrorCode::invalid_argument, "null");
    require(error_of([&] { call(std::span(counts).first(1)); }).code() == ErrorCode::invalid_argument, "counts");
    call(enough);
    require(value == 2.0f, "sum");
  });
}

TEST_P(Fused, TensorsInAnotherOrderAreAMismatch) {
  const auto body = [](Communicator& comm) {
    std::vector<float> few(10, 1.0f), many(20, 100.0f);
    const Error fused = error_of([&] {
      Fusion fusion(comm);
      fusion.all_reduce(comm.rank() == 1 ? many : few);
      fusion.all_reduce(comm.rank() == 1 ? few : many);
      fusion.wait();
    });
    require(fused.code() == ErrorCode::mismatch, fused.what());
    require(few[0] == 1.0f && many[19] == 100.0f, "the tensors are as they were");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body));
}

INSTANTIATE_TEST_SUITE_P(Transports, Fused, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
