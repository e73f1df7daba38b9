// Ring reduce_scatter: every chunk is summed on its way round the ring, and ends at its rank.
//
// 4 ranks; in step k rank i sends chunk (i - 1 - k) mod 4 right, with its own input added:
//
//         rank 0        rank 1        rank 2        rank 3
//   k=0   3 -> 1        0 -> 2        1 -> 3        2 -> 0
//   k=1   2 -> 1        3 -> 2        0 -> 3        1 -> 0
//   k=2   1 -> 1        2 -> 2        3 -> 3        0 -> 0      and there it stays
//
// Cost: (p-1) alpha + f n beta + f n gamma, f = (p-1)/p, n all chunks; only neighbours talk.
// Each chunk is summed in ring order from a different start: not canonical.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program ring_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::reduce_scatter, "ring", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = 1;  // for what comes from the left, and for the sum that goes right

  Lane ring{"ring", false, {}};
  add_ring_reduction(ring, p, 0, {own_block(Buffer::output)});
  program.lanes.push_back(std::move(ring));
  return program;
}

}  // namespace tutti::schedule
