// Bruck all_gather: what a rank has doubles in every round, for any number of ranks.
//
// 4 ranks; in round k a rank sends all it has to the one 2^k to its left:
//
//   rank         0         1         2         3
//   has        0         1         2         3
//   round 0    0 1       1 2       2 3       3 0         0 <-- 1, 1 <-- 2, 2 <-- 3, 3 <-- 0
//   round 1    0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2     0 <-- 2, 1 <-- 3, ...
//
// Blocks are counted from the rank's own and wrap around, so that none has to be moved in the end.
// Cost: ceil(lg p) alpha + f n beta, f = (p-1)/p, n all chunks.
//
// All but the last round lands in scratch, because the output must stay intact until every sender was heard; so half of
// it is copied once more.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program bruck_all_gather(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_gather, "bruck", placement, p, largest_half(p));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 2 ? 1 : 0;

  Lane lane{"exchange", false, {}};
  if (p > 2) lane.steps.push_back(copy_step({own_block(Buffer::scratch)}, own_block(Buffer::input)));
  int have = 1;
  for (; have < p; have *= 2) {
    const int more = have < p - have ? have : p - have;
    const bool last = 2 * have >= p;
    const Buffer from = have == 1 ? Buffer::input : Buffer::scratch;
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(-have))}, own_block(from, 0, more)));
    lane.steps.push_back(
        copy_step({own_block(last ? Buffer::output : Buffer::scratch, have, more)}, Operand::slot(Index::plus(have))));
  }
  have /= 2;
  lane.steps.push_back(
      copy_step({own_block(Buffer::output, 0, have)}, own_block(p > 2 ? Buffer::scratch : Buffer::input, 0, have)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
