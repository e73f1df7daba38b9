// Direct all_reduce: every rank reduces its chunk out of all inputs and stores it into all outputs. Zero copies.
//
// 4 ranks, chunks a b c d:
//
//   inputs    rank 0: a b c d    rank 1: a b c d    rank 2: a b c d    rank 3: a b c d
//                     |                  |                  |                  |
//                     +---------+--------+--------+---------+      rank 0 loads all a's, in canonical order,
//                               |                                  rank 1 all b's, ...
//   outputs           +---------+--------+--------+---------+      and stores the result into every output
//
// Needs windows onto the callers' own buffers (symmetric memory). Moves 2 p n bytes in all, the least possible.
// Cost: 2 alpha + (n/p)(p beta + p beta') + (p-1)/p n gamma, where beta and beta' are a load and a store.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_all_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_reduce, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kReduceLane = 0;
  const BlockSet mine = block_at(0);
  program.lanes = {
      {"reduce",
       true,
       {reduce_step(of_every_rank(placement, Buffer::output, mine), of_every_rank(placement, Buffer::input, mine), true,
                    others_entered(p))}},
      {"leave",
       false,
       {wait_step(wait_for_others(p, kReduceLane, 0))}},  // nobody returns while a peer may still touch its buffers
  };
  return program;
}

}  // namespace tutti::schedule
