// Direct all_to_all: every rank loads its chunks out of the others' inputs.
//
//   inputs    rank 0: 0 1 2 3    rank 1: 0 1 2 3    rank 2: 0 1 2 3    rank 3: 0 1 2 3
//                       |                  |                  |                  |
//   output 1          from 0             from 1             from 2             from 3
//
// Needs windows onto the callers' own inputs (symmetric memory). Each starts with its right neighbour, so that no input
// is loaded by all at once. Cost: 2 alpha + n beta, n all chunks.
// Not in place: a rank would overwrite what others load.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program direct_all_to_all(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_to_all, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kLoadLane = 0;
  Lane load{"load", true, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}};
  for (int distance = 1; distance < p; ++distance) {
    load.steps.push_back(copy_step({own_block(Buffer::output, distance)},
                                   Operand::window(Index::plus(distance), Buffer::input, block_at(0)),
                                   {{Index::plus(distance), Wait::kEntryLane, 0, 0}}));
  }
  program.lanes = {std::move(load), {"leave", false, {wait_step(wait_for_others(p, kLoadLane, p - 1))}}};
  return program;
}

}  // namespace tutti::schedule
