// Staged all_gather: for ordinary buffers, through scratch memory that peers can read.
//
//   in     every rank copies its chunk to its own scratch, two segments deep
//   out    every rank copies the others' chunks from their scratch to its output
//
//   rank 1   input 1 --in--> scratch [ . | 1 | . | . ] --out--> outputs of 0, 2, 3
//
// Cost: 2 alpha + n/p beta (in) + f n beta (out), f = (p-1)/p, n all chunks, overlapped over segments.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kOut };

}  // namespace

Program staged_all_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::all_gather, placement, p);
  if (p == 1) return alone(std::move(program));

  Lane in{"in", true, {}}, out{"out", true, {}};
  in.steps = {copy_step({own_block(Buffer::scratch)}, own_block(Buffer::input),
                        wait_for_others(p, kOut, p - 2, program.scratch_depth))};
  for (int distance = 1; distance < p; ++distance) {
    out.steps.push_back(copy_step({own_block(Buffer::output, distance)},
                                  Operand::window(Index::plus(distance), Buffer::scratch, block_at(distance)),
                                  {{Index::plus(distance), kIn, 0, 0}}));
  }
  // By itself: what writes an output waits until all ranks are there, and staging need not.
  Lane keep{"keep", false, {}};
  keep.steps = {copy_step({own_block(Buffer::output)}, own_block(Buffer::input), {{Index::plus(0), kIn, 0, 0}})};
  program.lanes = {std::move(in), std::move(out), std::move(keep)};
  return program;
}

}  // namespace tutti::schedule
