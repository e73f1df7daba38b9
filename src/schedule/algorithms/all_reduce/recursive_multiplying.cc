// Recursive multiplying all_reduce, radix 4: fours exchange whole vectors, at distance 1, 4, 16, ...
//
//   rank    0       1       2       3
//           a       b       c       d       input
//           each sends to the three others  distance 1
//         abcd    abcd    abcd    abcd      output
//
// Half the rounds of recursive doubling, with three messages in each, which are on their way at once. A last round of
// twos where the core is no power of four. With p = q + r (q a power of two) the odd partners of the first r pairs
// stand aside as in recursive doubling. The sum of a four joins nearest first, so that the order is canonical.
// Cost: log4 p (alpha + 3 (n beta + n gamma)), two more messages where p is no power of two.
//
// Partial results lie in scratch, and the last reduction alone writes the output: by then the rank has heard from all
// its peers.
#include <utility>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program all_reduce_in_rounds(std::string name, const Placement& placement, int radix) {
  Program program = begin_program(Verb::all_reduce, std::move(name), placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  const CoreRole role = CoreRole::of(placement.ranks, placement.rank);
  // The same on all ranks, because segments are cut by it.
  program.scratch_planes = role.core > radix || role.pairs != 0 ? 1 : 0;
  program.landing_planes = role.core >= radix ? radix - 1 : 1;

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand scratch = Operand::own(Buffer::scratch, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  Lane lane{"exchange", false, {}};
  if (role.member < 0) {
    const Operand partner = Operand::slot(Index::plus(-1));
    lane.steps = {copy_step({partner}, input), copy_step({output}, partner)};
    program.lanes.push_back(std::move(lane));
    return program;
  }

  Operand held = input;  // where this rank's partial result lies
  if (role.partner >= 0) {
    lane.steps.push_back(join_pair(placement, role, all_blocks(1)));
    held = scratch;
  }
  const bool alike = radix == 2 && role.pairs == 0;  // peers have the same text on every rank
  for (int distance = 1; distance < role.core;) {
    const int parts = role.core / distance >= radix ? radix : 2;
    const int digit = role.member / distance % parts;
    std::vector<Operand> peers, sources;
    for (int other = 0; other < parts; ++other) {
      if (other == digit) {
        sources.push_back(held);
        continue;
      }
      const int peer = role.rank_of(role.member + (other - digit) * distance);
      peers.push_back(Operand::slot(alike ? Index::exclusive_or(distance) : Index::absolute(peer)));
      sources.push_back(peers.back());
    }
    lane.steps.push_back(copy_step(std::move(peers), held));
    distance *= parts;
    const bool last = distance == role.core;
    held = last ? output : scratch;
    lane.steps.push_back(reduce_step({held}, std::move(sources), last));
  }
  if (role.partner >= 0) lane.steps.push_back(copy_step({Operand::slot(Index::plus(1))}, held));
  program.lanes.push_back(std::move(lane));
  return program;
}

Program recursive_multiplying_all_reduce(const Placement& placement) {
  return all_reduce_in_rounds("recursive_multiplying", placement, kRadix);
}

}  // namespace tutti::schedule
