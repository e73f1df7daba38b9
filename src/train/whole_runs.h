// Where elements of a parameter lie in the whole that it is a part of: checkpoints know wholes alone, so that they load
// however a model is cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/train/parameters.h"

namespace tutti::train {

// Elements [local, local + count) of the part are [whole, whole + count) of the whole.
struct WholeRun {
  std::size_t local = 0, whole = 0, count = 0;

  bool operator==(const WholeRun&) const = default;
};

// In order. Of no elements there is one run without any.
inline std::vector<WholeRun> whole_runs(const Parameter& parameter, std::size_t first, std::size_t count) {
  if (!parameter.part || count == 0) return {{first, first, count}};
  const ParameterPart& part = *parameter.part;
  std::vector<WholeRun> runs;
  for (std::size_t at = first; at < first + count; at += runs.back().count) {
    const std::size_t row = at / part.count, inside = at % part.count;
    runs.push_back({at, row * part.row + part.first + inside, std::min(part.count - inside, first + count - at)});
  }
  return runs;
}

// As checkpoints list it.
inline Parameter whole_of(const Parameter& parameter) {
  return {.name = parameter.name,
          .type = parameter.type,
          .shape = parameter.part ? parameter.part->shape : parameter.shape};
}

}  // namespace tutti::train
