// Vectors of 16-bit floats to and from 32 bits, the latter rounding to nearest even. Included once per instruction set.
//
// Invariant: exact for every input, subnormals and infinities included; NaN stays NaN. Highway's own emulation (1.0.3)
// on targets without conversion instructions neither rounds to nearest even nor keeps infinities and NaN, and its
// bfloat16 conversion truncates on every target, so both are written here.
#if defined(TUTTI_KERNELS_FLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_FLOAT16_INL_H_
#undef TUTTI_KERNELS_FLOAT16_INL_H_
#else
#define TUTTI_KERNELS_FLOAT16_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#undef TUTTI_FLOAT16_INSTRUCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define TUTTI_FLOAT16_INSTRUCTIONS 1
#else
#define TUTTI_FLOAT16_INSTRUCTIONS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16Half = hn::Rebind<std::uint16_t, F32>;  // as many 16-bit lanes as F32 has lanes: half a vector

#if TUTTI_FLOAT16_INSTRUCTIONS

HWY_INLINE hn::Vec<F32> float16_to_float32(hn::Vec<U16Half> half) {
  const hn::Rebind<hwy::float16_t, F32> f16;
  return hn::PromoteTo(F32(), hn::BitCast(f16, half));
}

HWY_INLINE hn::Vec<U16Half> float32_to_float16(hn::Vec<F32> v) {
  const hn::Rebind<hwy::float16_t, F32> f16;
  return hn::BitCast(U16Half(), hn::DemoteTo(f16, v));
}

#else

// Moves exponent and mantissa into place and adds the difference of the biases; for infinities and NaN a second time.
// A subnormal is normalised by letting the float unit subtract the implicit one that the shifted bits appear to have.
HWY_INLINE hn::Vec<F32> float16_to_float32(hn::Vec<U16Half> half) {
  const U32 u32;
  const auto bits = hn::PromoteTo(u32, half);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u32, 0x7FFF)));
  const auto exponent = hn::And(magnitude, hn::Set(u32, 0x7C00u << 13));
  const auto normal = hn::Add(magnitude, hn::Set(u32, 112u << 23));
  const auto special = hn::Add(normal, hn::Set(u32, 112u << 23));
  const auto one = hn::Set(u32, 113u << 23);
  const auto subnormal = hn::Sub(hn::BitCast(F32(), hn::Add(magnitude, one)), hn::BitCast(F32(), one));
  auto result = hn::IfThenElse(hn::Eq(exponent, hn::Set(u32, 0x7C00u << 13)), special, normal);
  result = hn::IfThenElse(hn::Eq(exponent, hn::Zero(u32)), hn::BitCast(u32, subnormal), result);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u32, 0x8000)));
  return hn::BitCast(F32(), hn::Or(result, sign));
}

// Normal results round by adding half a unit, less one unless the result is odd; the carry may run into the exponent
// and on into infinity. Subnormal results round in the float unit, by adding a number whose unit is theirs.
HWY_INLINE hn::Vec<U16Half> float32_to_float16(hn::Vec<F32> v) {
  const U32 u32;
  const hn::RebindToSigned<U32> i32;
  const auto bits = hn::BitCast(u32, v);
  const auto magnitude = hn::And(bits, hn::Set(u32, 0x7FFFFFFF));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, odd), hn::Set(u32, 0xFFFu - (112u << 23)));
  const auto normal = hn::ShiftRight<13>(rounded);
  const auto unit = hn::Set(u32, 126u << 23);  // 0.5, whose last bit is worth 2^-24
  const auto shifted = hn::Add(hn::BitCast(F32(), magnitude), hn::BitCast(F32(), unit));
  const auto subnormal = hn::Sub(hn::BitCast(u32, shifted), unit);
  // Magnitudes have no sign bit, so they compare as signed integers, which every target can do.
  const auto signed_magnitude = hn::BitCast(i32, magnitude);
  const auto is_small = hn::Lt(signed_magnitude, hn::Set(i32, 113 << 23));
  const auto is_large = hn::Gt(signed_magnitude, hn::Set(i32, (143 << 23) - 1));
  const auto is_nan = hn::Gt(signed_magnitude, hn::Set(i32, 0x7F800000));
  auto result = hn::IfThenElse(is_small, hn::BitCast(i32, subnormal), hn::BitCast(i32, normal));
  result = hn::IfThenElse(is_large, hn::Set(i32, 0x7C00), result);
  result = hn::IfThenElse(is_nan, hn::Set(i32, 0x7E00), result);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 0x8000));
  return hn::TruncateTo(U16Half(), hn::Or(hn::BitCast(u32, result), sign));
}

#endif

// Leaves the bfloat16 nearest to each lane in the upper half of the lane, and whatever in the lower half, by adding
// half a unit, less one unless the result is odd. A NaN whose lower half is zero, as every node's is, passes unchanged.
HWY_INLINE hn::Vec<U32> round_to_upper_half(hn::Vec<F32> v) {
  const U32 u32;
  const auto bits = hn::BitCast(u32, v);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL  // where masks are cheaper than a shift and an addition
  const auto is_odd = hn::TestBit(bits, hn::Set(u32, 0x10000));
  return hn::Add(bits, hn::IfThenElse(is_odd, hn::Set(u32, 0x8000), hn::Set(u32, 0x7FFF)));
#else
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFF)));
#endif
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
