// minloc and maxloc: which value, and whose index.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "tutti/reduce_local.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::require;

// Few different values, so that there are ties; indices that fall with the rank, so that the lowest is not the first's.
template <class T, class I>
ValueIndex<T, I> entry(int rank, std::size_t i) {
  return {static_cast<T>((i * 31 + static_cast<std::size_t>(rank) * 17) % 5),
          static_cast<I>(1000 * i) - static_cast<I>(rank)};
}

template <class T, class I>
ValueIndex<T, I> expected(int ranks, std::size_t i, bool smallest) {
  ValueIndex<T, I> best = entry<T, I>(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const ValueIndex<T, I> other = entry<T, I>(rank, i);
    const bool better = smallest ? other.value < best.value : other.value > best.value;
    if (better || (other.value == best.value && other.index < best.index)) best = other;
  }
  return best;
}

template <class T, class I>
void check_pairs(Communicator& comm) {
  std::vector<ValueIndex<T, I>> input(3001), output(3001);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = entry<T, I>(comm.rank(), i);
  for (const bool smallest : {true, false}) {
    const Op op = smallest ? Op::minloc<T, I>() : Op::maxloc<T, I>();
    comm.all_reduce(input, output, op);
    const auto require_prefix = [&](int ranks) {
      for (std::size_t i = 0; i < output.size(); ++i) {
        const ValueIndex<T, I> best = expected<T, I>(ranks, i, smallest);
        require(output[i].value == best.value && output[i].index == best.index, "element " + std::to_string(i));
      }
    };
    require_prefix(comm.size());
    comm.scan(input, output, op);
    require_prefix(comm.rank() + 1);
  }
}

class Locate : public ::testing::TestWithParam<testing::Ranks> {};

TEST_P(Locate, EveryPairOfTypes) {
  for (const int ranks : {1, 2, 5}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, [](Communicator& comm) {
      check_pairs<std::int8_t, std::int32_t>(comm);
      check_pairs<std::int16_t, std::int32_t>(comm);
      check_pairs<std::int32_t, std::int32_t>(comm);
      check_pairs<std::int64_t, std::int32_t>(comm);
      check_pairs<std::uint8_t, std::int64_t>(comm);
      check_pairs<std::uint16_t, std::int32_t>(comm);
      check_pairs<std::uint32_t, std::int64_t>(comm);
      check_pairs<std::uint64_t, std::int64_t>(comm);
      check_pairs<float, std::int32_t>(comm);
      check_pairs<float, std::int64_t>(comm);
      check_pairs<double, std::int32_t>(comm);
      check_pairs<double, std::int64_t>(comm);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Locate, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

template <class T>
ValueIndex<T> join(ValueIndex<T> a, ValueIndex<T> b, const Op& op) {
  reduce_local(one(a), one(b), op);
  return b;
}

template <class T>
class LocateFloats : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LocateFloats, Floats);

TYPED_TEST(LocateFloats, NaNWinsWithTheLowestIndexAndComesOutCanonical) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  const T odd = std::copysign(nan, T{-1});
  for (const Op& op : {Op::minloc<T>(), Op::maxloc<T>()}) {
    for (const T other : {-infinity, infinity, T{0}}) {
      for (const auto& found : {join<T>({other, 1}, {odd, 9}, op), join<T>({odd, 9}, {other, 1}, op)}) {
        EXPECT_EQ(found.index, 9);
        EXPECT_EQ(std::memcmp(&found.value, &nan, sizeof nan), 0);
      }
    }
    EXPECT_EQ(join<T>({nan, 4}, {odd, 3}, op).index, 3);
    EXPECT_EQ(join<T>({odd, 3}, {nan, 4}, op).index, 3);
    // Zeros are equal, whatever their sign.
    EXPECT_EQ(join<T>({T{0}, 4}, {-T{0}, 3}, op).index, 3);
    EXPECT_EQ(join<T>({-T{0}, 3}, {T{0}, 4}, op).index, 3);
  }
}

TEST(LocateRefuses, OtherTypes) {
  for (const DType type : {DType::float16, DType::bfloat16, DType::complex64, DType::boolean})
    EXPECT_EQ(error_of([&] { Op::minloc(type, DType::int32); }).code(), ErrorCode::unsupported) << name_of(type);
  for (const DType type : {DType::int16, DType::uint32, DType::float32})
    EXPECT_EQ(error_of([&] { Op::maxloc(DType::float32, type); }).code(), ErrorCode::unsupported) << name_of(type);
}

TEST(LocateRefuses, RanksWithDifferentPairs) {
  testing::expect_all_ok(run_threads(2, [](Communicator& comm) {
    ValueIndex<float> pair{1, 2};
    ValueIndex<std::int32_t> other{1, 2};
    const Error error = error_of([&] {
      if (comm.rank() == 0) comm.all_reduce(one(pair), Op::minloc<float>());
      comm.all_reduce(one(other), Op::minloc<std::int32_t>());
    });
    require(error.code() == ErrorCode::mismatch, error.what());
  }));
}

}  // namespace
}  // namespace tutti
