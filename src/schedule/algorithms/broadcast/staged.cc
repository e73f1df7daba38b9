// Staged broadcast: for ordinary buffers, through scratch of the root that all ranks can read.
//
//   root 0     input --in--> scratch ---+---------+---------+        two segments deep: the root fills one
//                                       |         |         |        while the others drain the other
//   outputs                           rank 1    rank 2    rank 3
//
// Cost: 2 alpha + 2 n beta, the copy in and the copies out overlapped over segments.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kOut };

}  // namespace

Program staged_broadcast(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::broadcast, placement, 1);
  if (p == 1) return alone(std::move(program));

  const Index root = Index::absolute(placement.root);
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  Lane in{"in", true, {}}, out{"out", true, {}};
  if (placement.rank == placement.root) {
    in.steps = {copy_step({Operand::own(Buffer::scratch, all_blocks(1)), output},
                          Operand::own(Buffer::input, all_blocks(1)),
                          wait_for_others(p, kOut, 0, program.scratch_depth))};
  } else {
    out.steps = {copy_step({output}, Operand::window(root, Buffer::scratch, all_blocks(1)), {{root, kIn, 0, 0}})};
  }
  program.lanes = {std::move(in), std::move(out)};
  return program;
}

}  // namespace tutti::schedule
