// Recursive halving and gather reduce: every rank sums a share of the vector, then the shares go to the root.
//
// 4 ranks, root 2, blocks 0 1 2 3. Halving is that of all_reduce, nearest first on strided blocks; then the members
// whose bit differs from the root's send what they have:
//
//   rank           0         1         2         3
//   distance 1   0 2       1 3       0 2       1 3       summed over pairs {0,1} {2,3}
//   distance 2   0         1         2         3         summed over all four
//   gather 2       --[0]------------> 2 0
//                            --[1]-------------> 3 1
//   gather 1                           <--[1 3]--
//
// In a pair of the first r (p = q + r) the root goes on, even if it is the odd one.
// Cost: 2 lg p alpha + 2f n beta + f n gamma, f = (p-1)/p; for other p one more message of the whole vector.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

Buffer results_of(const Placement& placement) {
  return placement.rank == placement.root ? Buffer::output : Buffer::scratch;
}

Operand in_results(const Placement& placement, const BlockSet& blocks) {
  return Operand::own(results_of(placement), blocks);
}

}  // namespace

Program recursive_halving_reduce(const Placement& placement) {
  const CoreRole role = CoreRole::of(placement.ranks, placement.rank, placement.root);
  const int root_member = CoreRole::of(placement.ranks, placement.root, placement.root).member;
  const int q = role.core;
  Program program = begin_program(Verb::reduce, "recursive_halving", placement, q, role.pairs != 0 ? q : q / 2);
  if (placement.ranks == 1) return alone(std::move(program));
  program.scratch_planes = 1;
  program.landing_planes = 1;

  Lane lane{"exchange", false, {}};
  if (role.member < 0) {
    lane.steps.push_back(copy_step({role.partner_slot(placement.rank)}, Operand::own(Buffer::input, all_blocks(q))));
    program.lanes.push_back(std::move(lane));
    return program;
  }
  if (role.partner >= 0) lane.steps.push_back(join_pair(placement, role, all_blocks(q)));
  add_halving(lane, placement, role, {strided_blocks, in_results});
  for (int distance = q / 2; distance >= 1; distance /= 2) {
    const Operand peer = role.peer_at(distance);
    if (((role.member ^ root_member) & distance) != 0) {
      lane.steps.push_back(
          copy_step({peer}, Operand::own(results_of(placement), congruent(role.member, 2 * distance, q))));
      break;
    }
    lane.steps.push_back(
        copy_step({Operand::own(results_of(placement), congruent(role.member ^ distance, 2 * distance, q))}, peer));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
