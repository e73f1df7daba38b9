// Chain broadcast: every rank hands the vector on to the next one.
//
//   root 0 ---> 1 ---> 2 ---> 3      segment by segment, all links at once
//
// No rank sends more than one message per segment, so that calls follow each other, and long vectors flow, as fast as
// one link allows. Cost: (p - 1) alpha for the first segment, then n beta whatever the number of ranks.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program chain_broadcast(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::broadcast, "chain", placement, 1, 1);
  if (p == 1) return alone(std::move(program));

  const int place = (placement.rank - placement.root + p) % p;
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  const Operand next = Operand::slot(Index::plus(1));
  Lane lane{"chain", false, {}};
  if (place == 0) {
    lane.steps.push_back(copy_step({next, output}, Operand::own(Buffer::input, all_blocks(1))));
  } else {
    const Operand before = Operand::slot(Index::plus(-1));
    lane.steps.push_back(copy_step(place == p - 1 ? std::vector{output} : std::vector{output, next}, before));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
