// Recursive doubling all_gather: partners exchange all that they have, at distance 1, 2, 4, ...
//
//   rank    0       1       2       3
//           0       1       2       3       input
//           0 <-> 1         2 <-> 3         distance 1
//          01      01      23      23       scratch
//           0 <----------> 2, 1 <-> 3       distance 2
//         0123    0123    0123    0123      output
//
// As few rounds as Bruck's, and ranks that follow each other meet first: on hosts of several ranks the first rounds
// stay inside. With p = q + r (q a power of two) the odd partners of the first r pairs hand their chunk to the even
// ones first, and receive all others last.
// Cost: lg p alpha + f n beta, f = (p-1)/p, n all chunks; alpha + n beta more where p is no power of two.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program recursive_doubling_all_gather(const Placement& placement) {
  return all_gather_in_rounds("recursive_doubling", placement, 2);
}

}  // namespace tutti::schedule
