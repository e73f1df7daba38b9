// The products of complex numbers; their sums are reduce_float.cc's.
//
// Invariant: (a + bi)(c + di) is (ac - bd) + (ad + bc)i with every operation rounded on its own, never fused.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_complex.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

// Pairs in memory, a vector of real and one of imaginary parts in registers.
template <class T>
struct Complex {
  using D = hn::ScalableTag<T>;
  struct Value {
    // Written out, because GCC compiles implicit constructors without the target's instructions.
    HWY_INLINE Value() {}
    HWY_INLINE Value(hn::Vec<D> r, hn::Vec<D> i) : real(r), imaginary(i) {}
    hn::Vec<D> real, imaginary;
  };
  using Packed = Value;
  static constexpr bool kRare = true;
  static constexpr bool kIsFloat = true;
  static constexpr std::size_t kRegisters = 2;
  static constexpr bool kCopyable = true;
  static constexpr std::size_t kElementBytes = 2 * sizeof(T);
  static constexpr std::size_t kBlock = kLanes<D>;

  static HWY_INLINE Value load(const std::byte* from) {
    Value v;
    hn::LoadInterleaved2(D(), reinterpret_cast<const T*>(from), v.real, v.imaginary);
    return v;
  }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    alignas(64) std::byte pairs[kBlock * kElementBytes] = {};
    std::memcpy(pairs, from, n * kElementBytes);
    return load(pairs);
  }
  static HWY_INLINE void store(Packed v, std::byte* to) {
    hn::StoreInterleaved2(v.real, v.imaginary, D(), reinterpret_cast<T*>(to));
  }
  static HWY_INLINE void stream(Packed v, std::byte* to) { store(v, to); }  // no instruction does both
  static HWY_INLINE void store_first(Packed v, std::byte* to, std::size_t n) {
    alignas(64) std::byte pairs[kBlock * kElementBytes];
    store(v, pairs);
    std::memcpy(to, pairs, n * kElementBytes);
  }

  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return {hn::Sub(hn::Mul(a.real, b.real), hn::Mul(a.imaginary, b.imaginary)),
            hn::Add(hn::Mul(a.real, b.imaginary), hn::Mul(a.imaginary, b.real))};
  }
  static HWY_INLINE Value round(Value v) { return v; }
  static HWY_INLINE Packed pack(Value v) { return v; }
  static HWY_INLINE hn::Vec<D> probe(Value v) { return hn::Add(v.real, v.imaginary); }
  static HWY_INLINE Value canonicalise(Value v) { return {replace_nan(D(), v.real), replace_nan(D(), v.imaginary)}; }
};

}  // namespace

ReduceFunction choose_complex(DType type) {
  if (type == DType::complex64) return &reduce<Complex<float>, Product, kFewSources>;
  if (type == DType::complex128) return &reduce<Complex<double>, Product, kFewSources>;
  return nullptr;
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_complex);
ReduceFunction find_reduce_complex(DType type, ReduceOp op) {
  return op == ReduceOp::product ? HWY_DYNAMIC_DISPATCH(choose_complex)(type) : nullptr;
}
}  // namespace tutti::kernels
#endif
