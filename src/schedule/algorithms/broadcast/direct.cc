// Direct broadcast: every rank loads the vector out of the root's input. Zero copies in between.
//
//   root 0     input  ------+---------+---------+
//                           |         |         |
//   outputs               rank 1    rank 2    rank 3      all at once
//
// Of two ranks the root works as well: it stores one half into the other's output while that loads the other half.
//
//   root 0     input     a --> stored by rank 0      b --> loaded by rank 1
//
// Needs windows onto the callers' own buffers (symmetric memory). Cost: 2 alpha + n beta, p - 1 ranks loading at once;
// n/2 beta between two.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

constexpr int kLoadLane = 0;

// The root's output, last, because in place it is what the others load.
Step keep(int ranks, int blocks) {
  return copy_step({Operand::own(Buffer::output, all_blocks(blocks))}, Operand::own(Buffer::input, all_blocks(blocks)),
                   wait_for_others(ranks, kLoadLane, 0));
}

Program by_halves(const Placement& placement) {
  Program program = begin_program(Verb::broadcast, "direct", placement, 2, 0);
  const Index other = Index::plus(1);
  const BlockSet half = block_at(0);
  if (placement.rank == placement.root) {
    const Step store =
        copy_step({Operand::window(other, Buffer::output, half)}, Operand::own(Buffer::input, half), others_entered(2));
    program.lanes = {{"store", true, {store, keep(2, 2)}}};
  } else {
    const Step load =
        copy_step({Operand::own(Buffer::output, half)}, Operand::window(other, Buffer::input, half), others_entered(2));
    program.lanes = {{"load", true, {load}}, {"leave", false, {wait_step(wait_for_others(2, kLoadLane, 0))}}};
  }
  return program;
}

}  // namespace

Program direct_broadcast(const Placement& placement) {
  const int p = placement.ranks;
  if (p == 2) return by_halves(placement);
  Program program = begin_program(Verb::broadcast, "direct", placement, 1, 0);
  if (p == 1) return alone(std::move(program));

  const Index root = Index::absolute(placement.root);
  if (placement.rank == placement.root) {
    program.lanes = {{"load", true, {keep(p, 1)}}};
  } else {
    const Operand theirs = Operand::window(root, Buffer::input, all_blocks(1));
    program.lanes = {
        {"load",
         true,
         {copy_step({Operand::own(Buffer::output, all_blocks(1))}, theirs, {{root, Wait::kEntryLane, 0, 0}})}}};
  }
  return program;
}

}  // namespace tutti::schedule
