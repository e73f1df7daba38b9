// A step of an optimizer over some rows of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/train/optimizer.h"

namespace tutti::train {

// All arrays of a table have the same rows of `width` numbers.
struct TableArrays {
  float* master = nullptr;
  float* states[2] = {};
  std::size_t width = 0;
};

// As update() of each of these rows by itself, in their order; row i of `gradient` is that of rows[i]. States are
// float32.
void update_rows(const Optimizer& optimizer, std::int64_t step, const TableArrays& table,
                 std::span<const std::int64_t> rows, const float* gradient, double gradient_scale);

}  // namespace tutti::train
