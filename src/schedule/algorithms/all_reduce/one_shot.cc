// One-shot all_reduce: everyone stages its vector in scratch that peers can read, and everyone reduces all of them.
//
//   in       every rank copies its input to its own scratch, two segments deep
//   reduce   every rank reduces its own input and the other ranks' scratch, in canonical order, into its output
//
//   scratch     [ 0 ]     [ 1 ]     [ 2 ]     [ 3 ]
//   outputs     0123      0123      0123      0123       all at once
//
// One wait for the others, where staged has two: that counts where vectors are small and ranks share cores.
// Cost: alpha + n beta + (p-1) n (beta + gamma).
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce };

}  // namespace

Program one_shot_all_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::all_reduce, placement, 1);
  program.algorithm = "one_shot";
  if (p == 1) return alone(std::move(program));

  const BlockSet all = all_blocks(1);
  const Operand input = Operand::own(Buffer::input, all);
  // In place the result takes the place of what must be in scratch by then.
  std::vector<Wait> all_in = wait_for_others(p, kIn, 0);
  all_in.push_back({Index::plus(0), kIn, 0, 0});
  program.lanes = {
      {"in",
       true,
       {copy_step({Operand::own(Buffer::scratch, all)}, input, wait_for_others(p, kReduce, 0, program.scratch_depth))}},
      {"reduce",
       true,
       {reduce_step({Operand::own(Buffer::output, all)}, of_every_rank(placement, Buffer::scratch, all, input), true,
                    std::move(all_in))}}};
  return program;
}

}  // namespace tutti::schedule
