// Ring all_gather: every chunk goes once around the ring.
//
// 4 ranks; in step k rank i sends chunk (i - k) mod 4 right:
//
//         rank 0        rank 1        rank 2        rank 3
//   k=0   0 -> 1        1 -> 2        2 -> 3        3 -> 0
//   k=1   3 -> 1        0 -> 2        1 -> 3        2 -> 0
//   k=2   2 -> 1        3 -> 2        0 -> 3        1 -> 0
//
// Cost: (p-1) alpha + f n beta, f = (p-1)/p, n all chunks; only neighbours talk.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program ring_all_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_gather, "ring", placement, p, 1);
  if (p == 1) return alone(std::move(program));

  const Operand to_right = Operand::slot(Index::plus(1));
  const Operand from_left = Operand::slot(Index::plus(-1));
  Lane ring{"ring", false, {copy_step({to_right}, own_block(Buffer::input))}};
  for (int k = 1; k < p - 1; ++k) ring.steps.push_back(copy_step({own_block(Buffer::output, -k), to_right}, from_left));
  ring.steps.push_back(copy_step({own_block(Buffer::output, 1)}, from_left));
  ring.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(Buffer::input)));
  program.lanes.push_back(std::move(ring));
  return program;
}

}  // namespace tutti::schedule
