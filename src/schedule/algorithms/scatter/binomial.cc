// Binomial scatter: the root deals the chunks out along a tree, half of what is left in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 --[2 3]--> 2
//   round 2   0 --[1]--> 1     2 --[3]--> 3
//
// Cost: lg p alpha + f n beta, f = (p-1)/p, n all chunks. What a rank passes on waits in its scratch.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program binomial_scatter(const Placement& placement) { return scatter_tree("binomial", placement, 2); }

}  // namespace tutti::schedule
