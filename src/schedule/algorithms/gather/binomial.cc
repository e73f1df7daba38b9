// Binomial gather: chunks come together along a tree, twice as many in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 <--[1]-- 1     2 <--[3]-- 3
//   round 2   0 <--[2 3]-- 2
//
// Cost: lg p alpha + f n beta, f = (p-1)/p, n all chunks. On their way chunks wait in scratch; at the root they land in
// the output, once every child was heard.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program binomial_gather(const Placement& placement) { return gather_tree("binomial", placement, 2); }

}  // namespace tutti::schedule
