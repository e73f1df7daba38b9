// K-nomial broadcast, radix 4: the ranks that have the vector quadruple in every round.
//
// 16 ranks, root 0 (others by rotation); of 4 the last round alone:
//
//   round 1   0 ---> 4, 8, 12                     the root sends three quarters of the group away
//   round 2   0 ---> 1, 2, 3   4 ---> 5, 6, 7     and so on, everywhere
//
// Half the rounds of a binomial tree, with three messages of each rank in flight at once. Segments pipeline down.
// Cost: log4 p (alpha + 3 n beta).
#include <utility>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program broadcast_tree(std::string name, const Placement& placement, int radix) {
  Program program = begin_program(Verb::broadcast, std::move(name), placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));

  const TreePlace place = TreePlace::of(placement, radix);
  std::vector<Operand> destinations{Operand::own(Buffer::output, all_blocks(1))};
  for (int distance = place.reach / radix; distance >= 1; distance /= radix) {
    for (int child = distance; place.has_child(child, distance); child += distance)
      destinations.push_back(Operand::slot(Index::plus(child)));
  }
  const Operand source = place.relative == 0 ? Operand::own(Buffer::input, all_blocks(1)) : place.parent_slot();
  program.lanes.push_back({"tree", false, {copy_step(std::move(destinations), source)}});
  return program;
}

Program knomial_broadcast(const Placement& placement) { return broadcast_tree("knomial", placement, kRadix); }

}  // namespace tutti::schedule
