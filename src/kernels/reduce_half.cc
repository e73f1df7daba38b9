// The reductions of float16 and bfloat16: every node computes in float32 and rounds once.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_half.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

template <class Format>
ReduceFunction choose_operator(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return &reduce_sum<Format, kManySources>;
    case ReduceOp::product: return &reduce<Format, Product, kFewSources>;
    case ReduceOp::minimum: return &reduce<Format, Minimum, kFewSources>;
    case ReduceOp::maximum: return &reduce<Format, Maximum, kFewSources>;
    default: return nullptr;
  }
}

}  // namespace

ReduceFunction choose_half(DType type, ReduceOp op) {
  if (type == DType::float16) return choose_operator<Float16>(op);
  if (type == DType::bfloat16) return choose_operator<BFloat16>(op);
  return nullptr;
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_half);
ReduceFunction find_reduce_half(DType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_half)(type, op); }
}  // namespace tutti::kernels
#endif
