// K-nomial reduce, radix 4: the tree of the canonical order, two of its levels at a time, turned to end at the root.
//
// 4 ranks, root 2: of four parts that join, the one with the root receives; without it, the first.
//
//   distance 1   0 ---> 2 <--- 3        its operands are (0, 1, 2, 3) all the same, joined nearest first
//                1 --/
//
// Half the rounds of a binomial tree. A last round of twos where the core is no power of four; with p = q + r the first
// r pairs join first. Segments pipeline up the tree; partial sums lie in scratch.
// Cost: log4 p (alpha + 3 n (beta + gamma)).
#include <utility>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program reduce_tree(std::string name, const Placement& placement, int radix) {
  Program program = begin_program(Verb::reduce, std::move(name), placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  const CoreRole role = CoreRole::of(placement.ranks, placement.rank, placement.root);
  const int root_member = CoreRole::of(placement.ranks, placement.root, placement.root).member;
  // The same on all ranks, because segments are cut by it.
  program.scratch_planes = role.core > radix || role.pairs != 0 ? 1 : 0;
  program.landing_planes = role.core >= radix ? radix - 1 : 1;

  const Operand scratch = Operand::own(Buffer::scratch, all_blocks(1));
  Operand held = Operand::own(Buffer::input, all_blocks(1));
  Lane lane{"tree", false, {}};
  if (role.member < 0) {
    lane.steps.push_back(copy_step({role.partner_slot(placement.rank)}, held));
  } else if (role.partner >= 0) {
    lane.steps.push_back(join_pair(placement, role, all_blocks(1)));
    held = scratch;
  }
  for (int distance = 1; role.member >= 0 && distance < role.core;) {
    const int parts = role.core / distance >= radix ? radix : 2;
    const int first = role.member / (parts * distance) * parts * distance;
    const int receiver = holder_of(first, parts * distance, root_member);
    if (role.member != receiver) {
      lane.steps.push_back(copy_step({Operand::slot(Index::absolute(role.rank_of(receiver)))}, held));
      break;
    }
    std::vector<Operand> sources;
    for (int part = 0; part < parts; ++part) {
      const int sender = holder_of(first + part * distance, distance, root_member);
      sources.push_back(sender == role.member ? held : Operand::slot(Index::absolute(role.rank_of(sender))));
    }
    distance *= parts;
    const bool last = distance == role.core;
    held = last ? Operand::own(Buffer::output, all_blocks(1)) : scratch;
    lane.steps.push_back(reduce_step({held}, std::move(sources), last));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

Program knomial_reduce(const Placement& placement) { return reduce_tree("knomial", placement, kRadix); }

}  // namespace tutti::schedule
