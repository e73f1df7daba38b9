// Converts between float types, rounding once to nearest even.
//
// float16, bfloat16 and float32 meet in vectors of float32. float64 meets the 16-bit types in a tile of float32, to
// which it is rounded "to odd": the last bit then tells that something was cut off, and the second rounding comes out
// as if it were the only one.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

// Rounds to nearest even. Highway's emulation (1.0.3) clamps where infinity is due.
HWY_INLINE hn::Vec<hn::Rebind<float, hn::ScalableTag<double>>> narrow(hn::Vec<hn::ScalableTag<double>> v) {
  const hn::Rebind<float, hn::ScalableTag<double>> d32;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  const hn::ScalableTag<double> d64;
  double wide[kLanes<decltype(d64)>];
  float narrowed[kLanes<decltype(d64)>];
  std::memcpy(wide, &v, sizeof(wide));
  for (std::size_t i = 0; i < kLanes<decltype(d64)>; ++i) narrowed[i] = static_cast<float>(wide[i]);
  return HWY_NAMESPACE::load(d32, reinterpret_cast<const std::byte*>(narrowed));
#else
  return hn::DemoteTo(d32, v);
#endif
}

// float64 as it lies in memory against half as many float32 in registers.
struct Float64 {
  using D = hn::ScalableTag<double>;
  using F32Half = hn::Rebind<float, D>;
  using Value = hn::Vec<F32Half>;
  using Packed = hn::Vec<D>;
  static constexpr std::size_t kElementBytes = 8;

  static HWY_INLINE Value load(const std::byte* from) { return narrow(HWY_NAMESPACE::load(D(), from)); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return narrow(HWY_NAMESPACE::load_first(D(), from, n * kElementBytes));
  }
  static HWY_INLINE void store(Packed v, std::byte* to) { HWY_NAMESPACE::store(D(), v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    HWY_NAMESPACE::store_first(D(), v, to, n * kElementBytes);
  }
  static HWY_INLINE Value canonicalise(Value v) { return replace_nan(F32Half(), v); }
  static HWY_INLINE Packed pack(Value v) { return hn::PromoteTo(D(), v); }
};

// Its partner.
struct Float32OfFloat64 {
  using D = Float64::F32Half;
  using Value = hn::Vec<D>;
  using Packed = Value;
  static constexpr std::size_t kElementBytes = 4;

  static HWY_INLINE Value load(const std::byte* from) { return HWY_NAMESPACE::load(D(), from); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return HWY_NAMESPACE::load_first(D(), from, n * kElementBytes);
  }
  static HWY_INLINE void store(Packed v, std::byte* to) { HWY_NAMESPACE::store(D(), v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    HWY_NAMESPACE::store_first(D(), v, to, n * kElementBytes);
  }
  static HWY_INLINE Value canonicalise(Value v) { return replace_nan(D(), v); }
  static HWY_INLINE Packed pack(Value v) { return v; }
};

template <class From, class To, std::size_t kElements>
struct ConvertBody {
  static constexpr std::size_t kBlock = kElements;
  static constexpr std::size_t kUnroll = 4;

  std::byte* to;
  const std::byte* from;

  template <std::size_t kCount>
  HWY_INLINE void blocks(std::size_t first) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t element = first + i * kBlock;
      const auto v = From::load(from + element * From::kElementBytes);
      To::store(To::pack(To::canonicalise(v)), to + element * To::kElementBytes);
    }
  }
  HWY_INLINE void part(std::size_t element, std::size_t n) const {
    const auto v = From::load_first(from + element * From::kElementBytes, n);
    To::store_first(To::pack(To::canonicalise(v)), to + element * To::kElementBytes, n);
  }
};

template <class From, class To>
void convert_directly(void* destination, const void* source, std::size_t count) {
  constexpr bool kWide = From::kElementBytes == 8 || To::kElementBytes == 8;
  constexpr std::size_t kBlock = kWide ? kLanes<Float64::D> : kLanes<F32>;
  const ConvertBody<From, To, kBlock> body{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source)};
  walk(body, count);
}

constexpr std::size_t kTile = 1024;

template <class From>
void convert_16_to_64(void* destination, const void* source, std::size_t count) {
  alignas(64) float tile[kTile];
  for (std::size_t element = 0; element < count; element += kTile) {
    const std::size_t n = std::min(kTile, count - element);
    convert_directly<From, Native<float>>(tile, static_cast<const std::byte*>(source) + 2 * element, n);
    convert_directly<Float32OfFloat64, Float64>(static_cast<double*>(destination) + element, tile, n);
  }
}

// Cuts the bits that float32 has no room for, and sets the last bit it has if any of them was set.
HWY_INLINE float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  bits -= std::fabs(back) > std::fabs(x) ? 1u : 0u;
  bits |= back != x ? 1u : 0u;
  return std::bit_cast<float>(bits);
}

template <class To>
void convert_64_to_16(void* destination, const void* source, std::size_t count) {
  alignas(64) float tile[kTile];
  for (std::size_t element = 0; element < count; element += kTile) {
    const std::size_t n = std::min(kTile, count - element);
    const double* const from = static_cast<const double*>(source) + element;
    for (std::size_t i = 0; i < n; ++i) tile[i] = round_to_odd(from[i]);
    convert_directly<Native<float>, To>(static_cast<std::byte*>(destination) + 2 * element, tile, n);
  }
}

template <std::size_t kBytes>
void copy_elements(void* destination, const void* source, std::size_t count) {
  copy(&destination, 1, source, kBytes * count);
}

constexpr std::size_t kTypes = 4;  // float16, bfloat16, float32, float64

constexpr ConvertFunction kConversions[kTypes][kTypes] = {
    {&copy_elements<2>, &convert_directly<Float16, BFloat16InOrder>, &convert_directly<Float16, Native<float>>,
     &convert_16_to_64<Float16>},
    {&convert_directly<BFloat16InOrder, Float16>, &copy_elements<2>, &convert_directly<BFloat16InOrder, Native<float>>,
     &convert_16_to_64<BFloat16InOrder>},
    {&convert_directly<Native<float>, Float16>, &convert_directly<Native<float>, BFloat16InOrder>, &copy_elements<4>,
     &convert_directly<Float32OfFloat64, Float64>},
    {&convert_64_to_16<Float16>, &convert_64_to_16<BFloat16InOrder>, &convert_directly<Float64, Float32OfFloat64>,
     &copy_elements<8>}};

}  // namespace

ConvertFunction choose_convert(std::size_t from, std::size_t to) { return kConversions[from][to]; }

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_convert);

ConvertFunction find_convert(DType from, DType to) {
  // The float types stand together in this order, as in the table.
  static_assert(static_cast<int>(DType::float64) - static_cast<int>(DType::float16) == 3);
  static_assert(static_cast<int>(DType::bfloat16) - static_cast<int>(DType::float16) == 1);
  const auto is_float = [](DType type) { return DType::float16 <= type && type <= DType::float64; };
  const auto index = [](DType type) {
    return static_cast<std::size_t>(type) - static_cast<std::size_t>(DType::float16);
  };
  if (!is_float(from) || !is_float(to)) return nullptr;
  return HWY_DYNAMIC_DISPATCH(choose_convert)(index(from), index(to));
}
}  // namespace tutti::kernels
#endif
