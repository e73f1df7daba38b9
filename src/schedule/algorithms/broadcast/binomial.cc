// Binomial broadcast: the ranks that have the vector double in every round.
//
// 4 ranks, root 0 (others by rotation):
//
//   round 1   0 ------------> 2          the root sends half the group away
//   round 2   0 ---> 1        2 ---> 3
//
// Cost: lg p (alpha + n beta). Segments pipeline down the tree.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program binomial_broadcast(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::broadcast, "binomial", placement, 1, 1);
  if (p == 1) return alone(std::move(program));

  const TreePlace place = TreePlace::of(placement);
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));

  Lane lane{"tree", false, {}};
  std::vector<Operand> destinations{output};
  for (int distance = place.reach / 2; distance >= 1; distance /= 2) {
    if (distance < place.below) destinations.push_back(Operand::slot(Index::plus(distance)));
  }
  lane.steps.push_back(
      copy_step(std::move(destinations), place.relative == 0 ? input : Operand::slot(Index::plus(-place.reach))));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
