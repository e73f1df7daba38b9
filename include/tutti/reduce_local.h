// Two buffers of this process reduced into one, without any rank: the step that reductions are made of.
//
//   tutti::reduce_local(from_below, mine, tutti::ReduceOp::maximum);        // mine[i] = from_below[i] op mine[i]
//
// The bits are those that an all_reduce between two ranks gives, the left operand being rank 0's: average divides by
// two, premul_sum scales both operands. Throws tutti::Error before anything is written. Any thread, at any time.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/element.h"
#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/op.h"

namespace tutti {

// output[i] = left[i] op right[i] for i < count. output may be left or right, or both; other overlap is refused.
TUTTI_API void reduce_local(const void* left, const void* right, void* output, std::size_t count,
                            const Element& element, const Op& op);

template <Readable Left, Readable Right, Writable Out>
requires SameElements<Left, Out> && SameElements<Right, Out>
void reduce_local(const Left& left, const Right& right, Out&& output, const Op& op = ReduceOp::sum) {
  const std::size_t count = std::ranges::size(output);
  for (const std::size_t given : {std::ranges::size(left), std::ranges::size(right)}) {
    if (given == count) continue;
    throw Error(ErrorCode::invalid_argument, "reduce_local: an operand has " + std::to_string(given) +
                                                 " elements and output " + std::to_string(count));
  }
  reduce_local(std::ranges::data(left), std::ranges::data(right), std::ranges::data(output), count,
               Element::of<ElementOf<Out>>(), op);
}
// inout[i] = input[i] op inout[i]
template <Readable In, Writable InOut>
requires SameElements<In, InOut>
void reduce_local(const In& input, InOut&& inout, const Op& op = ReduceOp::sum) {
  reduce_local(input, inout, inout, op);
}

}  // namespace tutti
