// Recursive doubling all_reduce: partners exchange whole vectors, at distance 1, 2, 4, ...
//
//   rank    0       1       2       3
//           a       b       c       d       input
//           0 <-> 1         2 <-> 3         distance 1
//          ab      ab      cd      cd       scratch
//           0 <----------> 2, 1 <-> 3       distance 2
//         abcd    abcd    abcd    abcd      output
//
// With p = q + r (q a power of two), the r odd partners of the first pairs hand their vector to the even ones first and
// receive the result last. Cost: lg p (alpha + n beta + n gamma), two more messages where p is no power of two.
// Nearest first and lower operand first: canonical.
//
// Partial results lie in scratch, one segment of it, and the output is written once, by the last reduction: by then the
// rank has heard from every peer, and through their sums from every rank, so that a mismatched call anywhere leaves the
// output intact. It costs no pass over memory: the same reductions have another destination.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program recursive_doubling_all_reduce(const Placement& placement) {
  Program program = begin_program(Verb::all_reduce, "recursive_doubling", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.scratch_planes = placement.ranks > 2 ? 1 : 0;  // the same on all ranks, because segments are cut by it
  program.landing_planes = 1;

  const CoreRole role = CoreRole::of(placement.ranks, placement.rank);
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
  for (int distance = 1; distance < role.core; distance *= 2) {
    const int peer_member = role.member ^ distance;
    const bool absolute = role.pairs != 0;  // without pairs the peer is rank xor distance, the same text on every rank
    const Operand peer =
        Operand::slot(absolute ? Index::absolute(role.rank_of(peer_member)) : Index::exclusive_or(distance));
    lane.steps.push_back(copy_step({peer}, held));
    std::vector<Operand> both = in_order(role.member < peer_member, held, peer);
    const bool last = 2 * distance == role.core;
    held = last ? output : scratch;
    lane.steps.push_back(reduce_step({held}, std::move(both), last));
  }
  if (role.partner >= 0) lane.steps.push_back(copy_step({Operand::slot(Index::plus(1))}, held));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
