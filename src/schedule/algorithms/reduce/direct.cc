// Direct reduce: every rank reduces its block out of all inputs and stores it into the root's output.
//
// 4 ranks, root 0, blocks a b c d:
//
//   inputs      rank 0: a b c d    rank 1: a b c d    rank 2: a b c d    rank 3: a b c d
//                       |                  |                  |                  |
//               rank 0 loads all a's, in canonical order, rank 1 all b's, ...
//                       |
//   output 0            a b c d
//
// Needs windows onto the callers' own buffers (symmetric memory). Cost: 2 alpha + n beta + f n gamma, f = (p-1)/p.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::reduce, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kReduceLane = 0;
  const Operand result = Operand::window(Index::absolute(placement.root), Buffer::output, block_at(0));
  program.lanes = {
      {"reduce",
       true,
       {reduce_step({result}, of_every_rank(placement, Buffer::input, block_at(0)), true, others_entered(p))}},
      {"leave", false, {wait_step(wait_for_others(p, kReduceLane, 0))}},
  };
  return program;
}

}  // namespace tutti::schedule
