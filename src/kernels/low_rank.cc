#include "kernels/low_rank.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

using Plain = Native<float>;
using Floats = hn::Vec<F32>;

constexpr std::size_t kFloats = kLanes<F32>;
constexpr std::size_t kSums = 16;  // partial sums of a dot product
constexpr std::size_t kSumVectors = kSums / kFloats;
constexpr std::size_t kRowsAtOnce = 4;        // that are added to what is loaded once
constexpr std::size_t kColumnsAtOnce = 1024;  // that the first cache holds beside the rows

HWY_INLINE Floats load_floats(const float* from) { return Plain::load(reinterpret_cast<const std::byte*>(from)); }
HWY_INLINE Floats load_floats(const float* from, std::size_t n) {
  return Plain::load_first(reinterpret_cast<const std::byte*>(from), n);
}
HWY_INLINE void store_floats(Floats v, float* to) {
  Plain::store(Plain::canonicalise(v), reinterpret_cast<std::byte*>(to));
}
HWY_INLINE void store_floats(Floats v, float* to, std::size_t n) {
  Plain::store_first(Plain::canonicalise(v), reinterpret_cast<std::byte*>(to), n);
}
HWY_INLINE Floats times(Floats v, float factor) { return hn::Mul(v, hn::Set(F32(), factor)); }

float one_dot(const float* a, const float* b, std::size_t count) {
  Floats sums[kSumVectors];
  for (auto& sum : sums) sum = hn::Zero(F32());
  const auto add = [&](const float* x, const float* y) HWY_ATTR {
    for (std::size_t v = 0; v < kSumVectors; ++v)
      sums[v] = hn::Add(sums[v], hn::Mul(load_floats(x + v * kFloats), load_floats(y + v * kFloats)));
  };
  const std::size_t whole = count / kSums * kSums;
  for (std::size_t i = 0; i < whole; i += kSums) add(a + i, b + i);
  if (whole < count) {
    float rest[2][kSums] = {};  // zeros change no sum
    std::copy(a + whole, a + count, rest[0]);
    std::copy(b + whole, b + count, rest[1]);
    add(rest[0], rest[1]);
  }
  alignas(64) float partial[kSums];
  for (std::size_t v = 0; v < kSumVectors; ++v) store_floats(sums[v], partial + v * kFloats);
  for (std::size_t left = kSums; left > 1; left /= 2)
    for (std::size_t i = 0; i < left / 2; ++i) partial[i] = partial[2 * i] + partial[2 * i + 1];
  return partial[0] == partial[0] ? partial[0] : std::numeric_limits<float>::quiet_NaN();
}

// sums[j] += the sum over some rows of factors[row] * rows[row][j], row after row.
template <std::size_t kRows>
HWY_INLINE void add_rows(const float* rows, std::size_t stride, const float* factors, std::size_t count, float* sums) {
  const auto added = [&](Floats sum, auto load_row) HWY_ATTR {
    for (std::size_t row = 0; row < kRows; ++row)
      sum = hn::Add(sum, times(load_row(rows + row * stride), factors[row]));
    return sum;
  };
  std::size_t j = 0;
  for (; j + kFloats <= count; j += kFloats)
    store_floats(added(load_floats(sums + j), [&](const float* row) HWY_ATTR { return load_floats(row + j); }),
                 sums + j);
  if (j == count) return;
  const std::size_t n = count - j;
  const Floats last =
      added(load_floats(sums + j, n), [&](const float* row) HWY_ATTR { return load_floats(row + j, n); });
  store_floats(last, sums + j, n);
}

// The same for all vectors of the right matrix.
template <std::size_t kRows>
HWY_INLINE void add_to_all(const MatrixSize& size, const float* matrix, const float* left, std::size_t row,
                           std::size_t column, std::size_t count, float* right) {
  for (std::size_t k = 0; k < size.rank; ++k)
    add_rows<kRows>(matrix + row * size.columns + column, size.columns, left + k * size.rows + row, count,
                    right + k * size.columns + column);
}

}  // namespace

float dot_floats(const float* a, const float* b, std::size_t count) { return one_dot(a, b, count); }

void all_rows_right(const MatrixSize& size, const float* matrix, const float* right, float* left) {
  for (std::size_t row = 0; row < size.rows; ++row)
    for (std::size_t k = 0; k < size.rank; ++k)
      left[k * size.rows + row] = one_dot(matrix + row * size.columns, right + k * size.columns, size.columns);
}

void all_columns_left(const MatrixSize& size, const float* matrix, const float* left, float* right) {
  std::fill_n(right, size.rank * size.columns, 0.0F);
  for (std::size_t column = 0; column < size.columns; column += kColumnsAtOnce) {
    const std::size_t count = std::min(kColumnsAtOnce, size.columns - column);
    std::size_t row = 0;
    for (; row + kRowsAtOnce <= size.rows; row += kRowsAtOnce)
      add_to_all<kRowsAtOnce>(size, matrix, left, row, column, count, right);
    for (; row < size.rows; ++row) add_to_all<1>(size, matrix, left, row, column, count, right);
  }
}

void one_row(const MatrixSize& size, const float* left, const float* right, std::size_t row, std::size_t first,
             std::size_t count, float* result) {
  std::fill_n(result, count, 0.0F);
  for (std::size_t k = 0; k < size.rank; ++k)
    add_rows<1>(right + k * size.columns + first, 0, left + k * size.rows + row, count, result);
}

void add_scaled(float* y, const float* x, float factor, std::size_t count) { add_rows<1>(x, 0, &factor, count, y); }

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(dot_floats);
HWY_EXPORT(all_rows_right);
HWY_EXPORT(all_columns_left);
HWY_EXPORT(one_row);
HWY_EXPORT(add_scaled);

float dot(const float* a, const float* b, std::size_t count) { return HWY_DYNAMIC_DISPATCH(dot_floats)(a, b, count); }
void multiply_right(const MatrixSize& size, const float* matrix, const float* right, float* left) {
  HWY_DYNAMIC_DISPATCH(all_rows_right)(size, matrix, right, left);
}
void multiply_left(const MatrixSize& size, const float* matrix, const float* left, float* right) {
  HWY_DYNAMIC_DISPATCH(all_columns_left)(size, matrix, left, right);
}
void product_of_row(const MatrixSize& size, const float* left, const float* right, std::size_t row, std::size_t first,
                    std::size_t count, float* result) {
  HWY_DYNAMIC_DISPATCH(one_row)(size, left, right, row, first, count, result);
}
void add_multiple(float* y, const float* x, float factor, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(y, x, factor, count);
}
}  // namespace tutti::kernels
#endif
