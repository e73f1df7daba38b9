// The norm of all gradients, with the same bits whoever holds which part of them: squares are summed up by blocks of
// strategy::kBlock elements of a parameter, which no shard cuts, and the blocks of all parameters are folded in
// canonical order.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/types.h"

namespace tutti::train {

// The squares of consecutive blocks, the last of which may be shorter: sums[k] for elements k * kBlock and on.
void sum_squares(const void* gradient, DType type, std::size_t count, double* sums);

// All of them; `sums` is used up.
double sum_of_blocks(std::vector<double>& sums);

}  // namespace tutti::train
