// Recursive halving and doubling all_reduce (Rabenseifner), nearest first on strided blocks.
//
// 4 ranks, blocks 0 1 2 3. Halving, distance 1 then 2: keep the blocks whose bit equals the rank's, send the others.
//
//   rank           0         1         2         3
//   holds        0123      0123      0123      0123
//   distance 1   0 2       1 3       0 2       1 3       summed over pairs {0,1} {2,3}, in scratch
//   distance 2   0         1         2         3         summed over all four, in the output
//   doubling     0 2       1 3       0 2       1 3       the same way back
//                0123      0123      0123      0123
//
// Nearest first, so that every block is summed in canonical order; the price is that a rank's blocks are strided.
// With p = q + r the odd partners of the first r pairs stand aside as in recursive doubling.
// Cost: 2 lg p alpha + 2f n beta + f n gamma, f = (p-1)/p;
//       for other p (2 floor(lg p) + 2) alpha + (2f + 2) n beta + (1 + f) n gamma.
//
// Halving sums in scratch, and only its last reduction writes to the output: by then the rank has heard from all its
// peers, so that a mismatched call of one of them leaves the output intact. It costs no pass over memory, only another
// destination, and a segment of scratch, of which half is touched if p is a power of two: blocks keep their places.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

Operand in_output(const Placement&, const BlockSet& blocks) { return Operand::own(Buffer::output, blocks); }

}  // namespace

Program recursive_halving_all_reduce(const Placement& placement) {
  const CoreRole role = CoreRole::of(placement.ranks, placement.rank);
  const int q = role.core;
  Program program = begin_program(Verb::all_reduce, "recursive_halving", placement, q, role.pairs != 0 ? q : q / 2);
  if (placement.ranks == 1) return alone(std::move(program));
  program.scratch_planes = placement.ranks > 2 ? 1 : 0;  // the same on all ranks, because segments are cut by it
  program.landing_planes = 1;

  Lane lane{"exchange", false, {}};
  const auto output = [](BlockSet blocks) { return Operand::own(Buffer::output, blocks); };
  const BlockSet all = all_blocks(q);
  if (role.member < 0) {
    const Operand partner = role.partner_slot(placement.rank);
    lane.steps = {copy_step({partner}, Operand::own(Buffer::input, all)), copy_step({output(all)}, partner)};
    program.lanes.push_back(std::move(lane));
    return program;
  }

  if (role.partner >= 0) lane.steps.push_back(join_pair(placement, role, all));
  add_halving(lane, placement, role, {strided_blocks, in_output});
  for (int distance = q / 2; distance >= 1; distance /= 2) {
    const BlockSet have = congruent(role.member, 2 * distance, q);
    const BlockSet lack = congruent(role.member ^ distance, 2 * distance, q);
    lane.steps.push_back(copy_step({role.peer_at(distance)}, output(have)));
    lane.steps.push_back(copy_step({output(lack)}, role.peer_at(distance)));
  }
  if (role.partner >= 0) lane.steps.push_back(copy_step({role.partner_slot(placement.rank)}, output(all)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
