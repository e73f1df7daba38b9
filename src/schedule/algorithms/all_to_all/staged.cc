// Staged all_to_all: for ordinary buffers, through scratch memory that peers can read.
//
//   in     every rank copies the others' chunks from its input to its scratch, two segments deep
//   out    every rank copies its chunks from the others' scratch to its output
//
//   scratch of rank 1:   [ 0 | . | 2 | 3 ]     each read by its rank
//
// Cost: 2 alpha + 2f n beta, f = (p-1)/p, n all chunks, the copies in and out overlapped over segments.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kOut };

}  // namespace

Program staged_all_to_all(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::all_to_all, placement, p);
  if (p == 1) return alone(std::move(program));

  Lane in{"in", true, {}}, out{"out", true, {}};
  in.steps = {copy_step({own_block(Buffer::scratch, 1, p - 1)}, own_block(Buffer::input, 1, p - 1),
                        wait_for_others(p, kOut, p - 2, program.scratch_depth))};
  for (int distance = 1; distance < p; ++distance) {
    // In place the chunk that comes takes the place of one that must be in scratch by then.
    out.steps.push_back(copy_step({own_block(Buffer::output, distance)},
                                  Operand::window(Index::plus(distance), Buffer::scratch, block_at(0)),
                                  {{Index::plus(distance), kIn, 0, 0}, {Index::plus(0), kIn, 0, 0}}));
  }
  program.lanes = {std::move(in),
                   std::move(out),
                   {"keep", false, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}}};
  return program;
}

}  // namespace tutti::schedule
