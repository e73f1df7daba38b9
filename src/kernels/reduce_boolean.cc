// The reductions of booleans: sum and maximum are "or", product and minimum are "and".
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_boolean.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

ReduceFunction choose_boolean(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::maximum:
    case ReduceOp::bor:
    case ReduceOp::lor: return &reduce<Boolean, BitOr, kFewSources>;
    case ReduceOp::product:
    case ReduceOp::minimum:
    case ReduceOp::band:
    case ReduceOp::land: return &reduce<Boolean, BitAnd, kFewSources>;
    case ReduceOp::bxor:
    case ReduceOp::lxor: return &reduce<Boolean, BitXor, kFewSources>;
    default: return nullptr;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_boolean);
ReduceFunction find_reduce_boolean(DType type, ReduceOp op) {
  return type == DType::boolean ? HWY_DYNAMIC_DISPATCH(choose_boolean)(op) : nullptr;
}
}  // namespace tutti::kernels
#endif
