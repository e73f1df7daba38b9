// Linear gather: every rank sends its chunk to the root, where each has a lane of its own.
//
//   0 <--[1]-- 1
//   0 <--[2]-- 2
//   0 <--[3]-- 3
//
// Cost: (p-1) alpha + f n beta at the root, f = (p-1)/p, n all chunks. A rank needs to know only its own count. The
// root writes nothing before it has heard from everybody.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program linear_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::gather, "linear", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.hears_first = true;
  if (placement.rank != placement.root) {
    const Operand root = Operand::slot(Index::absolute(placement.root));
    program.lanes = {{"give", false, {copy_step({root}, own_block(Buffer::input))}}};
    return program;
  }
  for (int distance = 1; distance < p; ++distance) {
    program.lanes.push_back({"take " + std::to_string(distance),
                             false,
                             {copy_step({own_block(Buffer::output, distance)}, Operand::slot(Index::plus(distance)))}});
  }
  program.lanes.push_back({"keep", false, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}});
  return program;
}

}  // namespace tutti::schedule
