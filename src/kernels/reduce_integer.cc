// Sums, averages, products and bitwise reductions of integers.
//
// All but the average are done in unsigned lanes, which wrap around to the same bits; bitwise operators see bytes.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_integer.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

// Towards zero. No vector unit divides integers, but floats with enough bits do it exactly: a quotient that is no whole
// number is further from one than the rounding of the division reaches (by more than 2^-32 of itself against 2^-53, and
// 2^-16 against 2^-24).
template <class T>
void divide_lanes(T* lanes, std::size_t count, std::uint32_t divisor) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    for (std::size_t i = 0; i < count; ++i) lanes[i] = static_cast<T>(Wide{lanes[i]} / Wide{divisor});
  } else {
    using Float = std::conditional_t<sizeof(T) == 4, double, float>;
    const Float by = static_cast<Float>(divisor);
    for (std::size_t i = 0; i < count; ++i) lanes[i] = static_cast<T>(static_cast<Float>(lanes[i]) / by);
  }
}

// The sum goes to a tile first, because it is divided as a whole and some destination may be a source.
template <class T>
HWY_NOINLINE void reduce_average(void* const* destinations, std::size_t destination_count, const void* const* sources,
                                 std::size_t source_count, std::size_t count, std::uint32_t divisor) {
  using Format = Native<std::make_unsigned_t<T>>;
  constexpr std::size_t kTile = kTileBytes / sizeof(T);
  alignas(64) T tile[kTile];
  for (std::size_t element = 0; element < count; element += kTile) {
    const std::size_t n = std::min(kTile, count - element);
    const void* const sum =
        reduce_to_tile<Format, Sum, kSomeSources>(tile, sources, source_count, element * sizeof(T), n);
    if (sum != tile) std::memcpy(tile, sum, n * sizeof(T));
    divide_lanes(tile, n, divisor);
    for (std::size_t d = 0; d < destination_count; ++d) {
      std::memcpy(static_cast<T*>(destinations[d]) + element, tile, n * sizeof(T));
    }
  }
}

template <class T>
void reduce_integer_sum(void* const* destinations, std::size_t destination_count, const void* const* sources,
                        std::size_t source_count, std::size_t count, Results results) {
  using Format = Native<std::make_unsigned_t<T>>;
  if (results.divisor > 1) {
    return reduce_average<T>(destinations, destination_count, sources, source_count, count, results.divisor);
  }
  reduce<Format, Sum, kSomeSources>(destinations, destination_count, sources, source_count, count, results);
}

template <class Op, std::size_t kBytes>
void reduce_bits(void* const* destinations, std::size_t destination_count, const void* const* sources,
                 std::size_t source_count, std::size_t count, Results results) {
  reduce<Native<std::uint8_t>, Op, kFewSources>(destinations, destination_count, sources, source_count, count * kBytes,
                                                results);
}

template <class T>
ReduceFunction choose_operator(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return &reduce_integer_sum<T>;
    case ReduceOp::product: return &reduce<Native<std::make_unsigned_t<T>>, Product, kFewSources>;
    case ReduceOp::band: return &reduce_bits<BitAnd, sizeof(T)>;
    case ReduceOp::bor: return &reduce_bits<BitOr, sizeof(T)>;
    case ReduceOp::bxor: return &reduce_bits<BitXor, sizeof(T)>;
    default: return nullptr;
  }
}

}  // namespace

ReduceFunction choose_integer(DType type, ReduceOp op) {
  return choose_for_integer(type, [op](auto element) { return choose_operator<decltype(element)>(op); });
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_integer);
ReduceFunction find_reduce_integer(DType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_integer)(type, op); }
}  // namespace tutti::kernels
#endif
