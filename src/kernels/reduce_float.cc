// The reductions of float32 and float64, and with them the sums of complex numbers, which are sums of their components.
#include "kernels/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/reduce_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

template <class T>
void sum_components(void* const* destinations, std::size_t destination_count, const void* const* sources,
                    std::size_t source_count, std::size_t count, Results results) {
  reduce_sum<Native<T>, kManySources>(destinations, destination_count, sources, source_count, 2 * count, results);
}

template <class T>
ReduceFunction choose_operator(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return &reduce_sum<Native<T>, kManySources>;
    case ReduceOp::product: return &reduce<Native<T>, Product, kSomeSources>;
    case ReduceOp::minimum: return &reduce<Native<T>, Minimum, kSomeSources>;
    case ReduceOp::maximum: return &reduce<Native<T>, Maximum, kSomeSources>;
    default: return nullptr;
  }
}

}  // namespace

ReduceFunction choose_float(DType type, ReduceOp op) {
  switch (type) {
    case DType::float32: return choose_operator<float>(op);
    case DType::float64: return choose_operator<double>(op);
    case DType::complex64: return op == ReduceOp::sum ? &sum_components<float> : nullptr;
    case DType::complex128: return op == ReduceOp::sum ? &sum_components<double> : nullptr;
    default: return nullptr;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_float);
ReduceFunction find_reduce_float(DType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_float)(type, op); }
}  // namespace tutti::kernels
#endif
