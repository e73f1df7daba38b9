// Dissemination barrier: in round k every rank tells the one 2^k to its right what it has heard of.
//
//   4 ranks    round 0   0 -> 1   1 -> 2   2 -> 3   3 -> 0        each has heard of 2
//              round 1   0 -> 2   1 -> 3   2 -> 0   3 -> 1        each has heard of all 4
//
// The messages are empty: a block of no elements, which lies in scratch because a barrier has no buffers.
// Cost: ceil(lg p) alpha.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program dissemination_barrier(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::barrier, "dissemination", placement, 1, 1);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = 1;

  const Operand nothing = Operand::own(Buffer::scratch, all_blocks(1));
  Lane lane{"rounds", false, {}};
  for (int distance = 1; distance < p; distance *= 2) {
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(distance))}, nothing));
    lane.steps.push_back(copy_step({nothing}, Operand::slot(Index::plus(-distance))));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
