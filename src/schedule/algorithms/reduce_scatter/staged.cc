// Staged reduce_scatter: for ordinary buffers, through scratch memory that peers can read.
//
//   in       every rank copies the others' chunks from its input to its scratch, two segments deep
//   reduce   every rank reduces its chunk out of its own input and the other ranks' scratch
//
//   scratch of rank 1:   [ 0 | . | 2 | 3 ]     each read by its rank
//
// Cost: 2 alpha + f n beta (in) + n beta + f n gamma, f = (p-1)/p, n all chunks, overlapped over segments.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce };

}  // namespace

Program staged_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::reduce_scatter, placement, p);
  if (p == 1) return alone(std::move(program));

  Lane in{"in", true, {}}, reduce{"reduce", true, {}};
  in.steps = {copy_step({own_block(Buffer::scratch, 1, p - 1)}, own_block(Buffer::input, 1, p - 1),
                        wait_for_others(p, kReduce, 0, program.scratch_depth))};
  reduce.steps = {reduce_step({own_block(Buffer::output)},
                              of_every_rank(placement, Buffer::scratch, block_at(0), own_block(Buffer::input)), true,
                              wait_for_others(p, kIn, 0))};
  program.lanes = {std::move(in), std::move(reduce)};
  return program;
}

}  // namespace tutti::schedule
