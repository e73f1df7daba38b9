// Tree scan: the total of a block of 2^k ranks goes from its last rank to the block of the same size behind it.
//
//   rank      0          1            2            3
//             a --> 1    ab --> 2,3   c --> 3                  1 has ab, 3 has cd
//                                     (ab)c        (ab)(cd)    in the order of prefixes
//
// All messages go up: nobody waits for a rank above it, so low ranks may run ahead. A rank hears from as many ranks as
// its number has ones, and sends one total, to the next 2^k ranks, k the ones at the end of its number. An exclusive
// scan leaves the rank's own input out of its result, but not out of what it sends.
// Cost: lg p (alpha + n beta + n gamma) at the last rank; p/2 n beta to send at the one in the middle.
#include "schedule/algorithms/scan/upward.h"

namespace tutti::schedule {
namespace {

Upward tree(const Placement& placement) {
  Upward tree{"tree", {}, nullptr, false};
  const int size = block_that_ends_with(placement.rank);
  for (int rank = placement.rank + 1; rank <= placement.rank + size && rank < placement.ranks; ++rank)
    tree.waiting.push_back(Operand::slot(Index::absolute(rank)));
  tree.block_before = [](const Placement& at, int distance) {  // from its last rank
    return Operand::slot(Index::absolute(at.rank / distance * distance - 1));
  };
  return tree;
}

}  // namespace

Program tree_scan(const Placement& placement) { return upward_scan(placement, tree(placement)); }
Program tree_exclusive_scan(const Placement& placement) { return upward_exclusive_scan(placement, tree(placement)); }

}  // namespace tutti::schedule
