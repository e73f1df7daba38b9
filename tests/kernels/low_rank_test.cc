// Products with thin matrices against the same sums one by one, bit for bit, on every instruction set.
#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/mix.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

using kernels::MatrixSize;

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<float>(static_cast<std::int32_t>(mix(mix(seed, i), 5) >> 32)) * 0x1p-31F;
  return numbers;
}

float slow_dot(const float* a, const float* b, std::size_t count) {
  float sums[16] = {};
  for (std::size_t i = 0; i < count; ++i) sums[i % 16] += a[i] * b[i];
  for (std::size_t left = 16; left > 1; left /= 2)
    for (std::size_t i = 0; i < left / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  return sums[0];
}

template <class Body>
void on_every_target(const Body& body) {
  for (std::size_t target = 0; target < kernels::target_count(); ++target) {
    kernels::use_target(target);
    SCOPED_TRACE(kernels::target_name(target));
    body();
  }
  kernels::use_target(0);
}

constexpr MatrixSize kSizes[] = {{1, 1, 1},   {7, 3, 2},    {16, 16, 4},  {5, 33, 1},
                                 {64, 33, 3}, {33, 70, 17}, {3, 2100, 2}, {2051, 4, 1}};

TEST(LowRank, GivesTheBitsOfSumsOneByOne) {
  for (const MatrixSize& size : kSizes) {
    const auto [rows, columns, rank] = size;
    const std::vector<float> matrix = numbers(rows * columns, rows), right = numbers(rank * columns, 77),
                             left = numbers(rank * rows, 78);
    std::vector<float> expected_left(rank * rows), expected_right(rank * columns), expected(rows * columns);
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t i = 0; i < rows; ++i) {
        expected_left[k * rows + i] = slow_dot(&matrix[i * columns], &right[k * columns], columns);
        for (std::size_t j = 0; j < columns; ++j) {
          expected_right[k * columns + j] += matrix[i * columns + j] * left[k * rows + i];
          expected[i * columns + j] += right[k * columns + j] * left[k * rows + i];
        }
      }
    }
    on_every_target([&] {
      std::vector<float> got_left(rank * rows), got_right(rank * columns, 9.0F), got(rows * columns);
      kernels::multiply_right(size, matrix.data(), right.data(), got_left.data());
      EXPECT_EQ(got_left, expected_left);
      kernels::multiply_left(size, matrix.data(), left.data(), got_right.data());
      EXPECT_EQ(got_right, expected_right);
      for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t cut = (i * 5) % (columns + 1);  // a row in two parts is the row
        float* const row = &got[i * columns];
        kernels::product_of_row(size, left.data(), right.data(), i, 0, cut, row);
        kernels::product_of_row(size, left.data(), right.data(), i, cut, columns - cut, row + cut);
      }
      EXPECT_EQ(got, expected);
    });
  }
}

TEST(LowRank, AddsMultiplesAndNothingBehindThem) {
  for (const std::size_t count : {0, 1, 5, 16, 31, 100}) {
    const std::vector<float> x = numbers(count, 1), y = numbers(count, 2);
    on_every_target([&] {
      std::vector<float> sum(y);
      sum.resize(count + 3, 7.0F);
      kernels::add_multiple(sum.data(), x.data(), -0.3F, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(sum[i], y[i] + x[i] * -0.3F);
      for (std::size_t i = count; i < sum.size(); ++i) EXPECT_EQ(sum[i], 7.0F);
    });
  }
}

// A row with a NaN or an infinity is not finite whatever it is multiplied with, and its NaN has no payload.
TEST(LowRank, WhatIsNotFiniteStaysSo) {
  const MatrixSize size{3, 40, 2};
  for (const float bad : {-std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> matrix(120, 1.0F), right(80, 0.0F);
    matrix[47] = bad;
    on_every_target([&] {
      std::vector<float> left(6);
      kernels::multiply_right(size, matrix.data(), right.data(), left.data());
      for (std::size_t i = 0; i < left.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(left[i]), i % 3 == 1 ? 0x7FC00000U : 0U) << i;
    });
  }
}

}  // namespace
}  // namespace tutti::kernels_test
