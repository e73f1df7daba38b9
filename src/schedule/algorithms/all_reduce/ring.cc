// Ring all_reduce: reduce-scatter around the ring, then all-gather around it.
//
// 4 ranks, chunks a b c d; in step k rank i sends chunk (i - k) mod 4 right and reduces (i - k - 1) from its left:
//
//         rank 0        rank 1        rank 2        rank 3
//   k=0   a -> 1        b -> 2        c -> 3        d -> 0      rank 0 now holds d over {3,0}
//   k=1   d -> 1        a -> 2        b -> 3        c -> 0      ... c over {2,3,0}
//   k=2   c -> 1        d -> 2        a -> 3        b -> 0      ... b over {1,2,3,0}: finished
//   k=3   b -> 1        c -> 2        d -> 3        a -> 0      finished chunks circulate
//   ...                                                          until every rank has all four
//
// Cost: 2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma. Bandwidth-optimal, latency grows with p.
// Each chunk is summed in ring order from a different start: not canonical.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program ring_all_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_reduce, "ring", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = p == 2 ? 1 : 2;  // for what comes from the left, and for partial sums that go right

  const Operand to_right = Operand::slot(Index::plus(1));
  const Operand from_left = Operand::slot(Index::plus(-1));
  Lane ring{"ring", false, {}};

  // Each step sends what the step before it finished; only the last reduction is needed here as well.
  add_ring_reduction(ring, p, 1, {own_block(Buffer::output, 1), to_right});
  for (int k = 0; k < p - 2; ++k) {
    ring.steps.push_back(copy_step({own_block(Buffer::output, -k), to_right}, from_left));
  }
  ring.steps.push_back(copy_step({own_block(Buffer::output, 2)}, from_left));
  program.lanes.push_back(std::move(ring));
  return program;
}

}  // namespace tutti::schedule
