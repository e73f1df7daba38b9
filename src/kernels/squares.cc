// Sums of squares, for the norm of gradients, in an order that does not depend on the instruction set.
#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/squares.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

using F64 = hn::ScalableTag<double>;
constexpr std::size_t kPartialSums = 16;

// As many elements as there are lanes of float64.
HWY_INLINE hn::Vec<F64> load_wide(const float* from) {
  const hn::Rebind<float, F64> d;
  return hn::PromoteTo(F64(), load(d, reinterpret_cast<const std::byte*>(from)));
}
HWY_INLINE hn::Vec<F64> load_wide(const double* from) { return load(F64(), reinterpret_cast<const std::byte*>(from)); }

// Across the ends of pages, where what the processor fetches by itself stops.
template <class T>
HWY_INLINE void fetch_ahead(const T* values) {
  constexpr std::size_t kLine = 64, kAhead = 2048;
  const auto* const from = reinterpret_cast<const std::byte*>(values) + kAhead;
  for (std::size_t at = 0; at < kPartialSums * sizeof(T); at += kLine) hwy::Prefetch(from + at);
}

// At most a block.
template <class T>
double sum_block(const T* values, std::size_t count) {
  constexpr std::size_t kVectors = kPartialSums / kLanes<F64>;
  hn::Vec<F64> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(F64());
  const auto add = [&](const T* from) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto x = load_wide(from + v * kLanes<F64>);
      sums[v] = hn::Add(sums[v], hn::Mul(x, x));
    }
  };
  const std::size_t whole = count / kPartialSums * kPartialSums;
  for (std::size_t i = 0; i < whole; i += kPartialSums) {
    fetch_ahead(values + i);
    add(values + i);
  }
  if (whole < count) {
    T rest[kPartialSums] = {};  // zeros change no sum
    std::copy(values + whole, values + count, rest);
    add(rest);
  }
  alignas(64) double partial[kPartialSums];
  for (std::size_t v = 0; v < kVectors; ++v) {
    store(F64(), sums[v], reinterpret_cast<std::byte*>(partial + v * kLanes<F64>));
  }
  for (std::size_t left = kPartialSums; left > 1; left /= 2) {
    for (std::size_t i = 0; i < left / 2; ++i) partial[i] = partial[2 * i] + partial[2 * i + 1];
  }
  return partial[0];
}

double without_payload(double sum) { return sum == sum ? sum : std::nan(""); }

template <class T>
double sum_squares(const void* values, std::size_t count) {
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kSquaresBlock) {
    sum += sum_block(static_cast<const T*>(values) + begin, std::min(kSquaresBlock, count - begin));
  }
  return without_payload(sum);
}

// 16-bit elements, widened a block at a time.
template <DType kType>
double sum_squares_of_halves(const void* values, std::size_t count) {
  const ConvertFunction widen = find_convert(kType, DType::float32);
  alignas(64) float block[kSquaresBlock];
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kSquaresBlock) {
    const std::size_t n = std::min(kSquaresBlock, count - begin);
    widen(block, static_cast<const std::byte*>(values) + 2 * begin, n);
    sum += sum_block(block, n);
  }
  return without_payload(sum);
}

}  // namespace

double sum_typed(const void* values, DType type, std::size_t count) {
  switch (type) {
    case DType::float16: return sum_squares_of_halves<DType::float16>(values, count);
    case DType::bfloat16: return sum_squares_of_halves<DType::bfloat16>(values, count);
    case DType::float32: return sum_squares<float>(values, count);
    case DType::float64: return sum_squares<double>(values, count);
    default: std::abort();
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(sum_typed);
double sum_of_squares(const void* values, DType type, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_typed)(values, type, count);
}
}  // namespace tutti::kernels
#endif
