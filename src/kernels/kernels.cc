// Finds the reduction for a type and an operator among the families of types.
#include "kernels/kernels.h"

#include "kernels/families.h"

namespace tutti::kernels {

namespace {

ReduceFunction find_in_families(DType type, ReduceOp op) {
  constexpr ReduceFunction (*kFamilies[])(DType, ReduceOp) = {
      &find_reduce_float,   &find_reduce_half,    &find_reduce_integer, &find_reduce_order,
      &find_reduce_logical, &find_reduce_boolean, &find_reduce_complex};
  for (const auto family : kFamilies) {
    if (const ReduceFunction found = family(type, op)) return found;
  }
  return nullptr;
}

}  // namespace

ReduceFunction find_reduce(DType type, ReduceOp op) {
  if (op != ReduceOp::average && op != ReduceOp::premul_sum) return find_in_families(type, op);
  // There is no such thing as the mean or the multiple of a truth value.
  return type == DType::boolean ? nullptr : find_in_families(type, ReduceOp::sum);
}

bool supports(DType type, ReduceOp op) { return find_reduce(type, op) != nullptr; }

}  // namespace tutti::kernels
