// Binomial gather: chunks come together along a tree, twice as many in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 <--[1]-- 1     2 <--[3]-- 3
//   round 2   0 <--[2 3]-- 2
//
// Cost: lg p alpha + f n beta, f = (p-1)/p, n all chunks. On their way chunks wait in scratch; at the root they land in
// the output, once every child was heard.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program binomial_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::gather, "binomial", placement, p, largest_half(p));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 3 ? 1 : 0;
  program.hears_first = true;

  const TreePlace place = TreePlace::of(placement);
  const bool root = place.relative == 0;
  const Buffer held = root ? Buffer::output : place.below == 1 ? Buffer::input : Buffer::scratch;
  Lane lane{"tree", false, {}};
  if (held != Buffer::input) lane.steps.push_back(copy_step({own_block(held)}, own_block(Buffer::input)));
  for (int distance = 1; distance < place.below; distance *= 2) {
    lane.steps.push_back(
        copy_step({own_block(held, distance, place.below_child(distance))}, Operand::slot(Index::plus(distance))));
  }
  if (!root)
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(-place.reach))}, own_block(held, 0, place.below)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
