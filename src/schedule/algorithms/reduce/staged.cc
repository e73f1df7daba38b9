// Staged reduce: for ordinary buffers, through scratch memory that peers can read.
//
// Three lanes interleave over segments, scratch is two segments deep. 4 ranks, root 0, blocks a b c d:
//
//   in       every rank copies the blocks it does not sum from its input to its scratch
//   reduce   rank 1 reduces b out of its own input and the other ranks' scratch into its own scratch;
//            the root reduces a right into its output
//   out      the root copies b c d from the other ranks' scratch to its output
//
//   scratch of rank 1:   [ a | b' | c | d ]
//
// Cost: 3 alpha + f n beta (in) + n beta + f n gamma, f = (p-1)/p, and f n beta more at the root, overlapped.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce, kOut };

}  // namespace

Program staged_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::reduce, placement, p);
  if (p == 1) return alone(std::move(program));

  const bool at_root = placement.rank == placement.root;
  const Index root = Index::absolute(placement.root);
  Lane in{"in", true, {}}, reduce{"reduce", true, {}}, out{"out", true, {}};
  in.steps = {copy_step({own_block(Buffer::scratch, 1, p - 1)}, own_block(Buffer::input, 1, p - 1),
                        wait_for_others(p, kReduce, 0, program.scratch_depth))};
  std::vector<Wait> ready = wait_for_others(p, kIn, 0);
  // The root takes this rank's block in the step of their distance; until then it stays in scratch.
  const int taken_at = (placement.rank - placement.root + p) % p - 1;
  if (!at_root) ready.push_back({root, kOut, taken_at, program.scratch_depth});
  reduce.steps = {reduce_step({own_block(at_root ? Buffer::output : Buffer::scratch)},
                              of_every_rank(placement, Buffer::scratch, block_at(0), own_block(Buffer::input)), true,
                              std::move(ready))};
  for (int distance = 1; at_root && distance < p; ++distance) {
    out.steps.push_back(copy_step({own_block(Buffer::output, distance)},
                                  Operand::window(Index::plus(distance), Buffer::scratch, block_at(distance)),
                                  {{Index::plus(distance), kReduce, 0, 0}, {Index::plus(0), kIn, 0, 0}}));
  }
  program.lanes = {std::move(in), std::move(reduce), std::move(out)};
  return program;
}

}  // namespace tutti::schedule
