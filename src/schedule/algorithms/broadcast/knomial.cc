// K-nomial broadcast, radix 4: the ranks that have the vector quadruple in every round.
//
// 16 ranks, root 0 (others by rotation); of 4 the last round alone:
//
//   round 1   0 ---> 4, 8, 12                     the root sends three quarters of the group away
//   round 2   0 ---> 1, 2, 3   4 ---> 5, 6, 7     and so on, everywhere
//
// Half the rounds of a binomial tree, with three messages of each rank in flight at once. Segments pipeline down.
// Cost: log4 p (alpha + 3 n beta).
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program knomial_broadcast(const Placement& placement) {
  constexpr int kRadix = 4;
  const int p = placement.ranks;
  Program program = begin_program(Verb::broadcast, "knomial", placement, 1, 1);
  if (p == 1) return alone(std::move(program));

  const int place = (placement.rank - placement.root + p) % p;
  int reach = 1;  // the value of the lowest digit that is not 0: children lie nearer than that
  while (reach < p && place / reach % kRadix == 0) reach *= kRadix;
  std::vector<Operand> destinations{Operand::own(Buffer::output, all_blocks(1))};
  for (int distance = reach / kRadix; distance >= 1; distance /= kRadix) {
    for (int digit = 1; digit < kRadix && place + digit * distance < p; ++digit)
      destinations.push_back(Operand::slot(Index::plus(digit * distance)));
  }
  const int behind_parent = place == 0 ? 0 : place / reach % kRadix * reach;
  const Operand source =
      place == 0 ? Operand::own(Buffer::input, all_blocks(1)) : Operand::slot(Index::plus(-behind_parent));
  program.lanes.push_back({"tree", false, {copy_step(std::move(destinations), source)}});
  return program;
}

}  // namespace tutti::schedule
