// Spread-out all_to_all: every rank sends each other rank its chunk, nearest to the right first, then takes theirs.
//
// 4 ranks; rank i sends to i + k for all k, one behind the other, and then takes from i - k in the same order:
//
//         rank 0        rank 1        rank 2        rank 3
//   k=1   1 -> 1        2 -> 2        3 -> 3        0 -> 0       chunk -> rank
//   k=2   2 -> 2        3 -> 3        0 -> 0        1 -> 1
//   k=3   3 -> 3        0 -> 0        1 -> 1        2 -> 2
//
// All messages are on their way at once, and no two ranks begin with the same one. Pairwise exchange is another
// algorithm: it takes what comes in a step before it sends in the next, and one slow rank holds up all others. In place
// a chunk is sent before the one comes that takes its place, and nothing is written before everybody was heard.
// Cost: (p-1) alpha + f n beta, f = (p-1)/p, n all chunks.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program spread_out_all_to_all(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_to_all, "spread_out", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.hears_first = true;

  Lane lane{"exchange", false, {}};
  for (int k = 1; k < p; ++k)
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(k))}, own_block(Buffer::input, k)));
  for (int k = 1; k < p; ++k)
    lane.steps.push_back(copy_step({own_block(Buffer::output, -k)}, Operand::slot(Index::plus(-k))));
  lane.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(Buffer::input)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
