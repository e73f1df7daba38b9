// What scans share that reduce all operands of a rank at once: the order of prefixes (base/canonical.h), as steps.
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {

// The steps that reduce `operands` into `output`, in the order of prefixes: blocks of powers of two, each by itself,
// then from the last to the first. The output is written last, when everybody was heard.
inline std::vector<Step> prefix_steps(const std::vector<Operand>& operands, const Operand& output) {
  const auto scratch = [](int plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); };
  std::vector<std::vector<Operand>> blocks;
  for (std::size_t at = 0; at < operands.size();) {
    const std::size_t size = std::bit_floor(operands.size() - at);
    blocks.emplace_back(operands.begin() + static_cast<std::ptrdiff_t>(at),
                        operands.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  std::vector<Step> steps;
  const auto total = [&](const std::vector<Operand>& block, const Operand& place) {
    if (block.size() == 1) return block.front();
    steps.push_back(reduce_step({place}, block, false));
    return place;
  };
  if (blocks.size() == 1 && operands.size() == 1) return {copy_step({output}, operands[0])};
  if (blocks.size() == 1) return {reduce_step({output}, operands, false)};
  Operand rest = total(blocks.back(), scratch(1));
  for (std::size_t i = blocks.size() - 1; i-- > 0;) {
    const Operand before = total(blocks[i], scratch(0));
    const Operand result = i == 0 ? output : scratch(1);
    steps.push_back(reduce_step({result}, {before, rest}, false));
    rest = result;
  }
  return steps;
}

// Planes of scratch that the steps for so many operands need.
inline int prefix_planes(int operands) { return operands < 3 ? 0 : operands < 6 ? 1 : 2; }

}  // namespace tutti::schedule
