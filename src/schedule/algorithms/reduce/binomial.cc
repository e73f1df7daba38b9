// Binomial reduce: the tree of the canonical order, turned so that it ends at the root.
//
// 4 ranks, root 2: of two halves that join, the one with the root receives; without it, the lower one.
//
//   distance 1   0 <--- 1         2 <--- 3
//   distance 2   0 -------------> 2              its operands are (01, 23) all the same
//
// With p = q + r the first r pairs join first. Cost: lg p (alpha + n beta + n gamma). The order of every sum is that of
// all_reduce, whatever the root. Segments pipeline up the tree; partial sums lie in scratch.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program binomial_reduce(const Placement& placement) { return reduce_tree("binomial", placement, 2); }

}  // namespace tutti::schedule
