// Binomial broadcast: the ranks that have the vector double in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 ------------> 2          the root sends half the group away
//   round 2   0 ---> 1        2 ---> 3
//
// Cost: lg p (alpha + n beta). Segments pipeline down the tree.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program binomial_broadcast(const Placement& placement) { return broadcast_tree("binomial", placement, 2); }

}  // namespace tutti::schedule
