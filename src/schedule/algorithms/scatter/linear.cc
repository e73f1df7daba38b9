// Linear scatter: the root sends every rank its chunk, on a lane of its own.
//
//   0 --[1]--> 1
//   0 --[2]--> 2
//   0 --[3]--> 3
//
// Cost: (p-1) alpha + f n beta at the root, f = (p-1)/p, n all chunks. A rank needs to know only its own count.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program linear_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::scatter, "linear", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  if (placement.rank != placement.root) {
    const Operand root = Operand::slot(Index::absolute(placement.root));
    program.lanes = {{"take", false, {copy_step({own_block(Buffer::output)}, root)}}};
    return program;
  }
  for (int distance = 1; distance < p; ++distance) {
    program.lanes.push_back({"give " + std::to_string(distance),
                             false,
                             {copy_step({Operand::slot(Index::plus(distance))}, own_block(Buffer::input, distance))}});
  }
  program.lanes.push_back({"keep", false, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}});
  return program;
}

}  // namespace tutti::schedule
