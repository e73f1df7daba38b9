// Coalesced reductions: the bits of one all_reduce per tensor, in one operation.
#include "tutti/coalesced.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

class Coalesced : public ::testing::TestWithParam<Ranks> {
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

TEST_P(Coalesced, HasTheBitsOfOneCallPerTensorInOneOperation) {
  run(3, [](Communicator& comm) {
    const std::uint64_t before = comm.counters()[Verb::all_reduce].calls;
    std::vector<std::vector<float>> few(7, std::vector<float>(3));
    all_reduce_coalesced(comm, few);
    require(comm.counters()[Verb::all_reduce].calls == before + 1, "one operation");
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

TEST_P(Coalesced, RefusesWhatIsNoTensor) {
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

TEST_P(Coalesced, TensorsInAnotherOrderAreAMismatch) {
  run(2, [](Communicator& comm) {
    std::vector<std::vector<float>> tensors{std::vector<float>(10, 1.0f), std::vector<float>(20, 100.0f)};
    if (comm.rank() == 1) std::swap(tensors[0], tensors[1]);
    const auto before = tensors;
    const Error error = error_of([&] { all_reduce_coalesced(comm, tensors); });
    require(error.code() == ErrorCode::mismatch, error.what());
    require(tensors == before, "the tensors are as they were");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Coalesced, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
