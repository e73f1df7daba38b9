// Direct scatter: every rank loads its chunk out of the root's input.
//
//   root 0     input  [ 0 | 1 | 2 | 3 ]
//                           |   |   |
//   outputs            rank 1   2   3       all at once
//
// Needs windows onto the root's own buffer (symmetric memory). Cost: 2 alpha + n/p beta, all ranks at once.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::scatter, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kLoadLane = 0;
  const Index root = Index::absolute(placement.root);
  if (placement.rank == placement.root) {
    program.lanes = {{"load", true, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}},
                     {"leave", false, {wait_step(wait_for_others(p, kLoadLane, 0))}}};
  } else {
    const Operand theirs = Operand::window(root, Buffer::input, block_at(0));
    program.lanes = {
        {"load", true, {copy_step({own_block(Buffer::output)}, theirs, {{root, Wait::kEntryLane, 0, 0}})}}};
  }
  return program;
}

}  // namespace tutti::schedule
