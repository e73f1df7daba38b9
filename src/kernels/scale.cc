// Multiplies elements by a factor, rounding once: the first half of premul_sum.
#include <limits>
#include <type_traits>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scale.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

template <class Format>
struct ScaleBody {
  static constexpr std::size_t kBlock = Format::kBlock;
  static constexpr std::size_t kUnroll = 4 / Format::kRegisters;

  std::byte* to;
  const std::byte* from;
  typename Format::Scalar factor;

  template <std::size_t kCount>
  HWY_INLINE void scale(typename Format::Value (&values)[kCount]) const {
    for (std::size_t i = 0; i < kCount; ++i) values[i] = Format::multiply(values[i], factor);
    if constexpr (Format::kIsFloat) canonicalise_all<Format>(values);
  }
  template <std::size_t kCount>
  HWY_INLINE void blocks(std::size_t element) const {
    constexpr std::size_t kBytes = kBlock * Format::kElementBytes;
    const std::size_t offset = element * Format::kElementBytes;
    typename Format::Value values[kCount];
    for (std::size_t i = 0; i < kCount; ++i) values[i] = Format::load(from + offset + i * kBytes);
    scale(values);
    for (std::size_t i = 0; i < kCount; ++i) Format::store(Format::pack(values[i]), to + offset + i * kBytes);
  }
  HWY_INLINE void part(std::size_t element, std::size_t n) const {
    const std::size_t offset = element * Format::kElementBytes;
    typename Format::Value values[1] = {Format::load_first(from + offset, n)};
    scale(values);
    Format::store_first(Format::pack(values[0]), to + offset, n);
  }
};

// kComponents elements of the format make one element of the type.
template <class Format, std::size_t kComponents = 1>
void scale_float(void* destination, const void* source, std::size_t count, double factor) {
  const ScaleBody<Format> body{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source),
                               static_cast<typename Format::Scalar>(factor)};
  walk(body, kComponents * count);
}

// Towards zero and clamped; converting a float that does not fit would be undefined.
template <class T>
T convert_factor(double factor) {
  using Limits = std::numeric_limits<T>;
  if (!(factor == factor)) return 0;
  if (factor <= static_cast<double>(Limits::min())) return Limits::min();
  if (factor >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(factor);
}

template <class T>
void scale_integer(void* destination, const void* source, std::size_t count, double factor) {
  using Bits = std::make_unsigned_t<T>;
  const ScaleBody<Native<Bits>> body{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source),
                                     static_cast<Bits>(convert_factor<T>(factor))};
  walk(body, count);
}

}  // namespace

ScaleFunction choose_scale(DType type) {
  switch (type) {
    case DType::int8: return &scale_integer<std::int8_t>;
    case DType::int16: return &scale_integer<std::int16_t>;
    case DType::int32: return &scale_integer<std::int32_t>;
    case DType::int64: return &scale_integer<std::int64_t>;
    case DType::uint8: return &scale_integer<std::uint8_t>;
    case DType::uint16: return &scale_integer<std::uint16_t>;
    case DType::uint32: return &scale_integer<std::uint32_t>;
    case DType::uint64: return &scale_integer<std::uint64_t>;
    case DType::float16: return &scale_float<Float16>;
    case DType::bfloat16: return &scale_float<BFloat16>;
    case DType::float32: return &scale_float<Native<float>>;
    case DType::float64: return &scale_float<Native<double>>;
    case DType::complex64: return &scale_float<Native<float>, 2>;
    case DType::complex128: return &scale_float<Native<double>, 2>;
    case DType::boolean: break;
  }
  return nullptr;
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_scale);
ScaleFunction find_scale(DType type) { return HWY_DYNAMIC_DISPATCH(choose_scale)(type); }
}  // namespace tutti::kernels
#endif
