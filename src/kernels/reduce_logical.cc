// The logical reductions of numbers, which see bits alone: those of zero, but for its sign, are false, all others true.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_logical.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

// Numbers whose 1 has the bits kOne, held as that or as nothing; kSign is what zero may have set.
template <class Bits, Bits kOne, Bits kSign = 0>
struct Truth : Native<Bits> {
  using D = hn::ScalableTag<Bits>;
  using Value = hn::Vec<D>;
  static constexpr bool kRare = true;
  static constexpr bool kCopyable = false;

  static HWY_INLINE Value load(const std::byte* from) { return truth(Native<Bits>::load(from)); }
  static HWY_INLINE Value load_first(const std::byte* from, std::size_t n) {
    return truth(Native<Bits>::load_first(from, n));
  }
  static HWY_INLINE Value truth(Value v) {
    if constexpr (kSign != 0) v = hn::AndNot(hn::Set(D(), kSign), v);
    return hn::IfThenZeroElse(hn::Eq(v, hn::Zero(D())), hn::Set(D(), kOne));
  }
};

template <class Format>
ReduceFunction choose_operator(ReduceOp op) {
  switch (op) {
    case ReduceOp::land: return &reduce<Format, BitAnd, kFewSources>;
    case ReduceOp::lor: return &reduce<Format, BitOr, kFewSources>;
    case ReduceOp::lxor: return &reduce<Format, BitXor, kFewSources>;
    default: return nullptr;
  }
}

}  // namespace

ReduceFunction choose_logical(DType type, ReduceOp op) {
  switch (type) {
    case DType::int16:
    case DType::uint16: return choose_operator<Truth<std::uint16_t, 1>>(op);
    case DType::int32:
    case DType::uint32: return choose_operator<Truth<std::uint32_t, 1>>(op);
    case DType::int64:
    case DType::uint64: return choose_operator<Truth<std::uint64_t, 1>>(op);
    case DType::float16: return choose_operator<Truth<std::uint16_t, 0x3C00, 0x8000>>(op);
    case DType::bfloat16: return choose_operator<Truth<std::uint16_t, 0x3F80, 0x8000>>(op);
    case DType::float32: return choose_operator<Truth<std::uint32_t, 0x3F800000, 0x80000000>>(op);
    case DType::float64: return choose_operator<Truth<std::uint64_t, 0x3FF0000000000000, 0x8000000000000000>>(op);
    default: return nullptr;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_logical);
ReduceFunction find_reduce_logical(DType type, ReduceOp op) {
  if (op != ReduceOp::land && op != ReduceOp::lor && op != ReduceOp::lxor) return nullptr;
  if (type == DType::int8 || type == DType::uint8) return find_reduce_boolean(DType::boolean, op);
  return HWY_DYNAMIC_DISPATCH(choose_logical)(type, op);
}
}  // namespace tutti::kernels
#endif
