// What is trained, for any engine that has arrays: a parameter is a name, a type, a shape and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/types.h"

namespace tutti::train {

// Where a parameter is a part of a larger one, whose other parts other ranks have: of every `row` numbers of the whole
// it has `count`, from number `first` on.
struct ParameterPart {
  std::vector<std::int64_t> shape;  // of the whole
  std::size_t row = 1, first = 0, count = 1;

  bool operator==(const ParameterPart&) const = default;
};

struct Parameter {
  std::string name;             // for errors and checkpoints; no two alike
  DType type = DType::float32;  // or bfloat16, float16
  std::vector<std::int64_t> shape;
  // Where the values lie when the strategy is made. It copies them into memory of its own; Strategy::values() tells
  // where they are from then on.
  const void* values = nullptr;
  // ZeRO stage 3: parameters that are gathered together, a layer for example; numbers from 0 on, without gaps.
  std::size_t unit = 0;
  // For checkpoints, which have wholes: where layers are cut over ranks (tensor parallel).
  std::optional<ParameterPart> part = {};

  std::size_t elements() const {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

using Parameters = std::vector<Parameter>;

}  // namespace tutti::train
