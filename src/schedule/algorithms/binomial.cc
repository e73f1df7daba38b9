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

Program binomial_broadcast(const Shape& shape) {
  const int p = shape.ranks;
  Program program = begin_program(Verb::broadcast, "binomial", shape, 1, 1);
  if (p == 1) return alone(std::move(program));

  const int relative = (shape.rank - shape.root + p) % p;
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  // A rank's lowest set bit is the distance to its parent; below it lie the distances to its children.
  int reach = 1;
  while (reach < p && (relative & reach) == 0) reach *= 2;

  Lane lane{"tree", false, {}};
  std::vector<Operand> destinations{output};
  for (int distance = reach / 2; distance >= 1; distance /= 2) {
    if (relative + distance < p) destinations.push_back(Operand::slot(Index::plus(distance)));
  }
  lane.steps.push_back(copy_step(std::move(destinations), relative == 0 ? input : Operand::slot(Index::plus(-reach))));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
