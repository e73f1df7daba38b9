// Where the kernels of each family of types are found; kernels.cc puts them together.
//
// Each function picks from the best instruction set that Highway detected, and returns nullptr for what is not its own.
#pragma once

#include "kernels/kernels.h"

namespace tutti::kernels {

ReduceFunction find_reduce_float(DType type, ReduceOp op);    // float32, float64; sums of complex numbers
ReduceFunction find_reduce_half(DType type, ReduceOp op);     // float16, bfloat16
ReduceFunction find_reduce_integer(DType type, ReduceOp op);  // integers: sum, product, bitwise
ReduceFunction find_reduce_order(DType type, ReduceOp op);    // integers: minimum, maximum
ReduceFunction find_reduce_logical(DType type, ReduceOp op);  // numbers taken for truth values
ReduceFunction find_reduce_boolean(DType type, ReduceOp op);
ReduceFunction find_reduce_complex(DType type, ReduceOp op);  // products of complex numbers

}  // namespace tutti::kernels
