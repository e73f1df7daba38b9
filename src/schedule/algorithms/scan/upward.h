// What scans share in which all messages go up: a rank takes the totals of the blocks of powers of two before it, one
// for every one in its number, and folds them in the order of prefixes. The blocks of the ones at the end of its
// number, with its own input, make up the total of one larger block, which others wait for.
#pragma once

#include <vector>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {

struct Upward {
  const char* name;
  std::vector<Operand> waiting;  // slots to those who get the total of the block that ends with this rank
  // Where the total of the block of `distance` ranks before this one's comes from.
  Operand (*block_before)(const Placement& placement, int distance);
  bool passes;  // passes blocks that are not in its total on to those who wait
};

Program upward_scan(const Placement& placement, const Upward& upward);
Program upward_exclusive_scan(const Placement& placement, const Upward& upward);

// Ranks of the block of a power of two that ends with `rank`, the largest one.
int block_that_ends_with(int rank);

}  // namespace tutti::schedule
