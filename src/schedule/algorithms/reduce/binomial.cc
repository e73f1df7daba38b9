// Binomial reduce: the tree of the canonical order, turned so that it ends at the root.
//
// 4 ranks, root 2: of two halves that join, the one with the root receives; without it, the lower one.
//
//   distance 1   0 <--- 1         2 <--- 3
//   distance 2   0 -------------> 2              its operands are (01, 23) all the same
//
// With p = q + r the first r pairs join first. Cost: lg p (alpha + n beta + n gamma). The order of every sum is that of
// all_reduce, whatever the root. Segments pipeline up the tree; partial sums lie in scratch.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program binomial_reduce(const Placement& placement) {
  Program program = begin_program(Verb::reduce, "binomial", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.scratch_planes = placement.ranks > 2 ? 1 : 0;
  program.landing_planes = 1;

  const CoreRole role = CoreRole::of(placement.ranks, placement.rank, placement.root);
  const int root_member = CoreRole::of(placement.ranks, placement.root, placement.root).member;
  const Operand scratch = Operand::own(Buffer::scratch, all_blocks(1));
  Operand held = Operand::own(Buffer::input, all_blocks(1));
  Lane lane{"tree", false, {}};
  if (role.member < 0) {
    lane.steps.push_back(copy_step({role.partner_slot(placement.rank)}, held));
  } else if (role.partner >= 0) {
    lane.steps.push_back(join_pair(placement, role, all_blocks(1)));
    held = scratch;
  }
  for (int distance = 1; role.member >= 0 && distance < role.core; distance *= 2) {
    const int first = role.member / (2 * distance) * 2 * distance;
    const int receiver = holder_of(first, 2 * distance, root_member);
    const bool lower = role.member < first + distance;
    if (role.member != receiver) {
      lane.steps.push_back(copy_step({Operand::slot(Index::absolute(role.rank_of(receiver)))}, held));
      break;
    }
    const int sender = holder_of(lower ? first + distance : first, distance, root_member);
    const bool last = 2 * distance == role.core;
    const Operand result = last ? Operand::own(Buffer::output, all_blocks(1)) : scratch;
    const Operand peer = Operand::slot(Index::absolute(role.rank_of(sender)));
    lane.steps.push_back(reduce_step({result}, in_order(lower, held, peer), last));
    held = result;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
