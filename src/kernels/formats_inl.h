// How elements of each type lie in memory and in registers. Included once per instruction set.
//
// A format names a Value (a block of kBlock elements in the lanes that arithmetic uses) and a Packed (the same block as
// it lies in memory), and:
//   load, store, and load_first, store_first for the first n elements of a block
//   stream            as store, past the caches, to a place that is aligned to a block
//   apply<Op>(a, b)   one node of a tree, not yet rounded to the element type
//   round(v)          to the value that a message would carry, still in the lanes of arithmetic
//   multiply(v, x), divide(v, x)   by a Scalar, not yet rounded
//   pack(v)           rounds and packs
//   probe(v)          floats only: a vector with a NaN in some lane if any element of v is NaN, seldom otherwise
//   canonicalise(v)   floats only: every NaN made the canonical one
//   kCopyable         whether a block that is loaded, packed and stored comes out as it was
//   kRegisters        vectors in a Value
//   kRare             whether it is too rare for variants of a loop, which would mostly cost time to compile
//
// Invariant: round(v) followed by more nodes gives the bits that pack, store and load in between would.
#if defined(TUTTI_KERNELS_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_FORMATS_INL_H_
#undef TUTTI_KERNELS_FORMATS_INL_H_
#else
#define TUTTI_KERNELS_FORMATS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/float16_inl.h"
#include "kernels/memory_inl.h"
#include "kernels/operators_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Integers, float32 and float64: one lane each.
template <class T>
struct Native {
  using D = hn::ScalableTag<T>;
  using Scalar = T;
  static constexpr bool kRare = false;
  static constexpr bool kIsFloat = hwy::IsFloat<T>();
  static constexpr std::size_t kRegisters = 1;
  using Value = hn::Vec<D>;
  using Packed = Value;
  static constexpr bool kCopyable = true;
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr std::size_t kBlock = kLanes<D>;

  static HWY_INLINE Value load(const std::byte* from) { return HWY_NAMESPACE::load(D(), from); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return HWY_NAMESPACE::load_first(D(), from, n * kElementBytes);
  }
  static HWY_INLINE void store(Packed v, std::byte* to) { HWY_NAMESPACE::store(D(), v, to); }
  static HWY_INLINE void stream(Packed v, std::byte* to) { HWY_NAMESPACE::stream(D(), v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    HWY_NAMESPACE::store_first(D(), v, to, n * kElementBytes);
  }

  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return Op::apply(D(), a, b);
  }
  static HWY_INLINE Value round(Value v) { return v; }
  static HWY_INLINE Value multiply(Value v, Scalar x) { return Product::apply(D(), v, hn::Set(D(), x)); }
  static HWY_INLINE Value divide(Value v, Scalar x) { return hn::Div(v, hn::Set(D(), x)); }
  static HWY_INLINE Packed pack(Value v) { return v; }
  static HWY_INLINE Value probe(Value v) { return v; }
  static HWY_INLINE Value canonicalise(Value v) { return replace_nan(D(), v); }
};

// Bytes of which any but zero is true; stored as 0 and 1.
struct Boolean : Native<std::uint8_t> {
  static constexpr bool kRare = true;
  static constexpr bool kCopyable = false;
  static HWY_INLINE Value load(const std::byte* from) { return normalise(Native::load(from)); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return normalise(Native::load_first(from, n));
  }
  static HWY_INLINE Value normalise(Value v) { return hn::Min(v, hn::Set(D(), 1)); }
};

// Half a vector in memory, a vector of float32 in registers.
struct Float16 {
  static constexpr bool kRare = false;
  static constexpr bool kIsFloat = true;
  static constexpr std::size_t kRegisters = 1;
  using Scalar = float;
  using Value = hn::Vec<F32>;
  using Packed = hn::Vec<U16Half>;
  static constexpr bool kCopyable = true;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kBlock = kLanes<F32>;

  static HWY_INLINE Value load(const std::byte* from) {
    return float16_to_float32(HWY_NAMESPACE::load(U16Half(), from));
  }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return float16_to_float32(HWY_NAMESPACE::load_first(U16Half(), from, n * kElementBytes));
  }
  static HWY_INLINE void store(Packed v, std::byte* to) { HWY_NAMESPACE::store(U16Half(), v, to); }
  static HWY_INLINE void stream(Packed v, std::byte* to) { HWY_NAMESPACE::stream(U16Half(), v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    HWY_NAMESPACE::store_first(U16Half(), v, to, n * kElementBytes);
  }

  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return Op::apply(F32(), a, b);
  }
  static HWY_INLINE Value round(Value v) { return float16_to_float32(float32_to_float16(v)); }
  static HWY_INLINE Value multiply(Value v, Scalar x) { return hn::Mul(v, hn::Set(F32(), x)); }
  static HWY_INLINE Value divide(Value v, Scalar x) { return hn::Div(v, hn::Set(F32(), x)); }
  static HWY_INLINE Packed pack(Value v) { return float32_to_float16(v); }
  static HWY_INLINE Value probe(Value v) { return v; }
  static HWY_INLINE Value canonicalise(Value v) { return replace_nan(F32(), v); }
};

// A vector in memory, two vectors of float32 in registers: the elements at even indices and those at odd ones. Taking
// them apart and putting them together is then a shift and a mask, without moving anything across lanes.
struct BFloat16 {
  static constexpr bool kRare = false;
  static constexpr bool kIsFloat = true;
  static constexpr std::size_t kRegisters = 2;
  struct Value {
    // Written out, because GCC compiles implicit constructors without the target's instructions.
    HWY_INLINE Value() {}
    HWY_INLINE Value(hn::Vec<F32> e, hn::Vec<F32> o) : even(e), odd(o) {}
    hn::Vec<F32> even, odd;
  };
  using Scalar = float;
  using Packed = hn::Vec<U32>;
  static constexpr bool kCopyable = true;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kBlock = 2 * kLanes<U32>;
  static constexpr std::uint32_t kUpperHalf = 0xFFFF0000;

  static HWY_INLINE Value load(const std::byte* from) { return unpack(HWY_NAMESPACE::load(U32(), from)); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return unpack(HWY_NAMESPACE::load_first(U32(), from, n * kElementBytes));
  }
  static HWY_INLINE void store(Packed v, std::byte* to) { HWY_NAMESPACE::store(U32(), v, to); }
  static HWY_INLINE void stream(Packed v, std::byte* to) { HWY_NAMESPACE::stream(U32(), v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    HWY_NAMESPACE::store_first(U32(), v, to, n * kElementBytes);
  }
  static HWY_INLINE Value unpack(Packed pairs) {
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(pairs)),
            hn::BitCast(F32(), hn::And(pairs, hn::Set(U32(), kUpperHalf)))};
  }

  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return {Op::apply(F32(), a.even, b.even), Op::apply(F32(), a.odd, b.odd)};
  }
  static HWY_INLINE Value round(Value v) { return {round_lanes(v.even), round_lanes(v.odd)}; }
  static HWY_INLINE hn::Vec<F32> round_lanes(hn::Vec<F32> v) {
    return hn::BitCast(F32(), hn::And(round_to_upper_half(v), hn::Set(U32(), kUpperHalf)));
  }
  static HWY_INLINE Value multiply(Value v, Scalar x) {
    const auto factor = hn::Set(F32(), x);
    return {hn::Mul(v.even, factor), hn::Mul(v.odd, factor)};
  }
  static HWY_INLINE Value divide(Value v, Scalar x) {
    const auto divisor = hn::Set(F32(), x);
    return {hn::Div(v.even, divisor), hn::Div(v.odd, divisor)};
  }
  static HWY_INLINE hn::Vec<F32> probe(Value v) { return hn::Add(v.even, v.odd); }
  static HWY_INLINE Value canonicalise(Value v) { return {replace_nan(F32(), v.even), replace_nan(F32(), v.odd)}; }
  static HWY_INLINE Packed pack(Value v) {
    const auto even = hn::ShiftRight<16>(round_to_upper_half(v.even));
    return hn::OrAnd(even, round_to_upper_half(v.odd), hn::Set(U32(), kUpperHalf));
  }
};

// bfloat16 with a block's elements in the order of memory, as the other types have them, for what meets those.
struct BFloat16InOrder {
  using Value = hn::Vec<F32>;
  using Packed = hn::Vec<U16Half>;
  static constexpr std::size_t kElementBytes = 2;

  static HWY_INLINE Value load(const std::byte* from) { return widen(HWY_NAMESPACE::load(U16Half(), from)); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return widen(HWY_NAMESPACE::load_first(U16Half(), from, n * kElementBytes));
  }
  static HWY_INLINE Value widen(Packed v) { return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), v))); }
  static HWY_INLINE void store(Packed v, std::byte* to) { Float16::store(v, to); }
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) { Float16::store_first(v, to, n); }
  static HWY_INLINE Value canonicalise(Value v) { return replace_nan(F32(), v); }
  static HWY_INLINE Packed pack(Value v) {
    return hn::TruncateTo(U16Half(), hn::ShiftRight<16>(round_to_upper_half(v)));
  }
};

// Makes the NaN of some values canonical. NaN is rare, so several values are added up and looked at together: the sum
// is NaN if one of them is (or if infinities or overflow met, which costs only time).
template <class Format, std::size_t kCount>
HWY_INLINE void canonicalise_all(typename Format::Value (&values)[kCount]) {
  if constexpr (kCount == 1) {
    values[0] = Format::canonicalise(values[0]);
  } else {
    auto probe = Format::probe(values[0]);
    for (std::size_t i = 1; i < kCount; ++i) probe = hn::Add(probe, Format::probe(values[i]));
    const hn::DFromV<decltype(probe)> d;
    if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(probe)))) return;
    for (std::size_t i = 0; i < kCount; ++i) values[i] = Format::canonicalise(values[i]);
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
