// Counter scan: totals of blocks of powers of two go from rank to rank, as the digits of a binary counter.
//
//   rank      0         1          2             3              4
//             -- a -->  -- ab -->  -- c, ab -->  -- abcd -->                 smallest block first
//   result    a         ab         (ab)c         (ab)(cd)       (abcd)e      in the order of prefixes
//
// What comes to a rank are the blocks before it, one for every one in its number. The ones at the end of the number it
// adds up with its own input, which is the carry: the total of one larger block. That and the rest it passes on. Nobody
// talks to others than its neighbours, and low ranks may run ahead. An exclusive scan leaves the rank's own input out
// of its result, but not out of what it passes on.
// Cost: (p-1)(alpha + n beta + n gamma) until the last rank has its result; no rank sends more than lg p n, half of
// that on average.
#include "schedule/algorithms/scan/upward.h"

namespace tutti::schedule {
namespace {

Upward counter(const Placement& placement) {
  Upward counter{"counter", {}, nullptr, true};
  if (placement.rank < placement.ranks - 1) counter.waiting = {Operand::slot(Index::plus(1))};
  counter.block_before = [](const Placement&, int) { return Operand::slot(Index::plus(-1)); };
  return counter;
}

}  // namespace

Program counter_scan(const Placement& placement) { return upward_scan(placement, counter(placement)); }
Program counter_exclusive_scan(const Placement& placement) {
  return upward_exclusive_scan(placement, counter(placement));
}

}  // namespace tutti::schedule
