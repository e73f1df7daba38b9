// Recursive doubling all_reduce: partners exchange whole vectors, at distance 1, 2, 4, ...
//
//   rank    0       1       2       3
//           a       b       c       d       input
//           0 <-> 1         2 <-> 3         distance 1
//          ab      ab      cd      cd       scratch
//           0 <----------> 2, 1 <-> 3       distance 2
//         abcd    abcd    abcd    abcd      output
//
// With p = q + r (q a power of two), the r odd partners of the first pairs hand their vector to the even ones first and
// receive the result last. Cost: lg p (alpha + n beta + n gamma), two more messages where p is no power of two.
// Nearest first and lower operand first: canonical.
//
// Partial results lie in scratch, one segment of it, and the output is written once, by the last reduction: by then the
// rank has heard from every peer, and through their sums from every rank, so that a mismatched call anywhere leaves the
// output intact. It costs no pass over memory: the same reductions have another destination.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program recursive_doubling_all_reduce(const Placement& placement) {
  return all_reduce_in_rounds("recursive_doubling", placement, 2);
}

}  // namespace tutti::schedule
