// Minimum and maximum of integers, the reductions in which their sign matters.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_order.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

template <class T>
ReduceFunction choose_operator(ReduceOp op) {
  if (op == ReduceOp::minimum) return &reduce<Native<T>, Minimum, kFewSources>;
  if (op == ReduceOp::maximum) return &reduce<Native<T>, Maximum, kFewSources>;
  return nullptr;
}

}  // namespace

ReduceFunction choose_order(DType type, ReduceOp op) {
  return choose_for_integer(type, [op](auto element) { return choose_operator<decltype(element)>(op); });
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_order);
ReduceFunction find_reduce_order(DType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_order)(type, op); }
}  // namespace tutti::kernels
#endif
