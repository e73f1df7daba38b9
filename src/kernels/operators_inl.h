// The reduction operators on vectors of one lane type. Included once per instruction set.
//
// Invariant: Op::apply is elementwise and gives the same bits on every instruction set, but for the NaN of sums and
// products; kMakesNaN says that replace_nan must follow before the value is stored.
#if defined(TUTTI_KERNELS_OPERATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_OPERATORS_INL_H_
#undef TUTTI_KERNELS_OPERATORS_INL_H_
#else
#define TUTTI_KERNELS_OPERATORS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> canonical_nan(D d) {
  const hn::RebindToUnsigned<D> bits;
  using Bits = hn::TFromD<decltype(bits)>;
  constexpr Bits kNaN = sizeof(Bits) == 4 ? Bits{0x7FC00000} : static_cast<Bits>(0x7FF8000000000000);
  return hn::BitCast(d, hn::Set(bits, kNaN));
}

template <class D>
HWY_INLINE hn::Vec<D> replace_nan(D d, hn::Vec<D> v) {
  return hn::IfThenElse(hn::IsNaN(v), canonical_nan(d), v);
}

struct Sum {
  static constexpr bool kMakesNaN = true;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

// Wraps around; the sign of the lanes does not matter, so integers come as unsigned lanes.
HWY_INLINE hn::Vec<hn::ScalableTag<std::uint8_t>> multiply_bytes(hn::Vec<hn::ScalableTag<std::uint8_t>> a,
                                                                 hn::Vec<hn::ScalableTag<std::uint8_t>> b) {
  const hn::ScalableTag<std::uint8_t> d;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, static_cast<std::uint8_t>(hn::GetLane(a) * hn::GetLane(b)));
#else
  const hn::Repartition<std::uint16_t, decltype(d)> wide;
  const auto a16 = hn::BitCast(wide, a);
  const auto b16 = hn::BitCast(wide, b);
  const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0x00FF));
  const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
  return hn::BitCast(d, hn::Or(even, odd));
#endif
}

struct Product {
  static constexpr bool kMakesNaN = true;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (sizeof(hn::TFromD<D>) == 1) {
      return multiply_bytes(a, b);
    } else {
      return hn::Mul(a, b);
    }
  }
};

// Floats: b if b < a, else a if it is at least not unordered, else NaN. That is isnan(a) ? a : isnan(b) ? b :
// (b < a ? b : a) with every NaN the canonical one; the machines' own minima differ on zeros and NaN.
struct Minimum {
  static constexpr bool kMakesNaN = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Lt(b, a), b, hn::IfThenElse(hn::Ge(b, a), a, canonical_nan(d)));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Maximum {
  static constexpr bool kMakesNaN = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Lt(a, b), b, hn::IfThenElse(hn::Ge(a, b), a, canonical_nan(d)));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct BitAnd {
  static constexpr bool kMakesNaN = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr {
  static constexpr bool kMakesNaN = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor {
  static constexpr bool kMakesNaN = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
