// Direct broadcast: every rank loads the vector out of the root's input. Zero copies in between.
//
//   root 0     input  ------+---------+---------+
//                           |         |         |
//   outputs               rank 1    rank 2    rank 3      all at once
//
// Needs windows onto the root's own buffer (symmetric memory). Cost: 2 alpha + n beta, p - 1 ranks loading at once.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_broadcast(const Shape& shape) {
  const int p = shape.ranks;
  Program program = begin_program(Verb::broadcast, "direct", shape, 1, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kLoadLane = 0;
  const Index root = Index::absolute(shape.root);
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  if (shape.rank == shape.root) {
    // Last, because in place the output is what the others load.
    program.lanes = {
        {"load",
         true,
         {copy_step({output}, Operand::own(Buffer::input, all_blocks(1)), wait_for_others(p, kLoadLane, 0))}}};
  } else {
    const Operand theirs = Operand::window(root, Buffer::input, all_blocks(1));
    program.lanes = {{"load", true, {copy_step({output}, theirs, {{root, Wait::kEntryLane, 0, 0}})}}};
  }
  return program;
}

}  // namespace tutti::schedule
