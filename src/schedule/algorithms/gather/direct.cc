// Direct gather: every rank stores its chunk into the root's output.
//
//   inputs        rank 0   1   2   3
//                      |   |   |   |        all at once
//   root 0  output  [  0 | 1 | 2 | 3 ]
//
// Needs windows onto the root's own buffer (symmetric memory). Cost: 2 alpha + n/p beta, all ranks at once.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::gather, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kStoreLane = 0;
  const Index root = Index::absolute(placement.root);
  if (placement.rank == placement.root) {
    program.lanes = {{"store", true, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}},
                     {"leave", false, {wait_step(wait_for_others(p, kStoreLane, 0))}}};
  } else {
    const Operand theirs = Operand::window(root, Buffer::output, block_at(0));
    program.lanes = {
        {"store", true, {copy_step({theirs}, own_block(Buffer::input), {{root, Wait::kEntryLane, 0, 0}})}}};
  }
  return program;
}

}  // namespace tutti::schedule
