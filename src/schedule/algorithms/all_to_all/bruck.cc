// Bruck all_to_all: chunks travel by the bits of their distance, many in one message.
//
// 4 ranks. A chunk for the rank j to the right lies at place j of scratch; in round k all places with bit k set go
// 2^k to the right, and what comes takes their places. Of rank 0 (ab: from a, for b):
//
//   place      0    1    2    3
//              00   01   02   03
//   round 0    00   30   02   32      places 1 and 3 from rank 3
//   round 1    00   30   20   10      places 2 and 3 from rank 2: place j is now from rank -j
//
// Cost: ceil(lg p) alpha + (n/2) lg p beta, n all chunks: few messages, each byte moves lg p / 2 times.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

// The places of 0 .. blocks-1 with this bit set.
BlockSet places_with(int bit, int blocks) {
  const int whole = blocks / (2 * bit) * bit;
  const int rest = blocks % (2 * bit);
  return {Index::absolute(bit), 2 * bit, whole + (rest > bit ? rest - bit : 0), bit};
}

}  // namespace

Program bruck_all_to_all(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_to_all, "bruck", placement, p, p / 2);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = 1;

  const Operand scratch = Operand::own(Buffer::scratch, all_blocks(p));
  Lane lane{"exchange", false, {copy_step({scratch}, own_block(Buffer::input, 0, p))}};
  for (int bit = 1; bit < p; bit *= 2) {
    const Operand places = Operand::own(Buffer::scratch, places_with(bit, p));
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(bit))}, places));
    lane.steps.push_back(copy_step({places}, Operand::slot(Index::plus(-bit))));
  }
  lane.steps.push_back(copy_step({Operand::own(Buffer::output, {Index::plus(0), -1, p})}, scratch));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
