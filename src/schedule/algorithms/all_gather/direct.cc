// Direct all_gather: every rank stores its chunk into all outputs, in one pass over it.
//
//   rank 1    input  1 ----+---------+---------+---------+
//                          |         |         |         |
//   outputs            rank 0     rank 1    rank 2    rank 3      [ 0 | 1 | 2 | 3 ] each
//
// Needs windows onto the callers' own buffers (symmetric memory). Moves the least there is: every chunk is loaded once
// and stored p times. Cost: 2 alpha + n/p (beta + p beta'), beta a load and beta' a store, n all chunks.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_all_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_gather, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kStoreLane = 0;
  program.lanes = {
      {"store",
       true,
       {copy_step(of_every_rank(placement, Buffer::output, block_at(0)), own_block(Buffer::input), others_entered(p))}},
      {"leave", false, {wait_step(wait_for_others(p, kStoreLane, 0))}},
  };
  return program;
}

}  // namespace tutti::schedule
