// Direct reduce_scatter: every rank reduces its chunk out of all inputs.
//
//   inputs    rank 0: 0 1 2 3    rank 1: 0 1 2 3    rank 2: 0 1 2 3    rank 3: 0 1 2 3
//                       |                  |                  |                  |
//             rank 1 loads all chunks 1, in canonical order, and so on
//
// Needs windows onto the callers' own inputs (symmetric memory). Cost: 2 alpha + n beta + f n gamma, f = (p-1)/p.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::reduce_scatter, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kReduceLane = 0;
  program.lanes = {
      {"reduce",
       true,
       {reduce_step({own_block(Buffer::output)}, of_every_rank(placement, Buffer::input, block_at(0)), true,
                    others_entered(p))}},
      {"leave", false, {wait_step(wait_for_others(p, kReduceLane, 0))}},
  };
  return program;
}

}  // namespace tutti::schedule
