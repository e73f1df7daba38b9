// Gradients of any float type as float32, and sums of those, by the kernels that serve them everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/kernels.h"
#include "tutti/types.h"

namespace tutti::train {

inline constexpr std::size_t kTile = 4096;  // values that caches hold beside what is made of them

// Calls body(begin, count) for the tiles of `count` values.
template <class Body>
void for_tiles(std::size_t count, const Body& body) {
  for (std::size_t begin = 0; begin < count; begin += kTile) body(begin, std::min(kTile, count - begin));
}

inline void load_floats(float* floats, const std::byte* values, DType type, std::size_t count) {
  if (type == DType::float32) {
    std::memcpy(floats, values, count * sizeof(float));
  } else {
    kernels::find_convert(type, DType::float32)(floats, values, count);
  }
}

inline void store_floats(const float* floats, std::byte* values, DType type, std::size_t count) {
  if (type == DType::float32) {
    std::memcpy(values, floats, count * sizeof(float));
  } else {
    kernels::find_convert(DType::float32, type)(values, floats, count);
  }
}

inline void add_floats(float* sums, const float* more, std::size_t count) {
  const void* terms[] = {sums, more};
  void* result = sums;
  kernels::find_reduce(DType::float32, ReduceOp::sum)(&result, 1, terms, 2, count, {});
}

inline void scale_floats(float* values, std::size_t count, double factor) {
  kernels::find_scale(DType::float32)(values, values, count, factor);
}

}  // namespace tutti::train
