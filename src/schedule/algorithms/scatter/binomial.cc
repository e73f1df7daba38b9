// Binomial scatter: the root deals the chunks out along a tree, half of what is left in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 --[2 3]--> 2
//   round 2   0 --[1]--> 1     2 --[3]--> 3
//
// Cost: lg p alpha + f n beta, f = (p-1)/p, n all chunks. What a rank passes on waits in its scratch.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program binomial_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::scatter, "binomial", placement, p, largest_half(p));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 3 ? 1 : 0;

  const TreePlace place = TreePlace::of(placement);
  const Buffer held = place.relative == 0 ? Buffer::input : Buffer::scratch;
  const Operand parent = Operand::slot(Index::plus(-place.reach));
  Lane lane{"tree", false, {}};
  if (place.below == 1) {
    lane.steps.push_back(copy_step({own_block(Buffer::output)}, parent));
    program.lanes.push_back(std::move(lane));
    return program;
  }
  if (place.relative != 0) lane.steps.push_back(copy_step({own_block(held, 0, place.below)}, parent));
  for (int distance = place.reach / 2; distance >= 1; distance /= 2) {
    if (distance >= place.below) continue;
    lane.steps.push_back(
        copy_step({Operand::slot(Index::plus(distance))}, own_block(held, distance, place.below_child(distance))));
  }
  lane.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(held)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
