// Scatter and all_gather broadcast: the root deals the vector out along a tree, then the blocks go round a chain.
//
// 4 ranks, root 0, blocks 0 1 2 3 (others by rotation):
//
//   scatter   0 --[2 3]--> 2     0 --[1]--> 1     2 --[3]--> 3      every rank has its own block
//   chain     0 ----------> 1 ----------> 2 ----------> 3           each passes on what comes from the left,
//             0, 3, 2       1, 0, 3       2, 1, 0                   after its own block
//
// Cost: (lg p + p - 1) alpha + 2f n beta, f = (p-1)/p: each byte twice, whatever p. Nothing goes back to the root, so
// that no circle of messages can close.
//
// What comes down the tree waits in scratch: the output is written once the left neighbour was heard as well.
#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program scatter_all_gather_broadcast(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::broadcast, "scatter_all_gather", placement, p, largest_half(p));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = 1;

  const TreePlace place = TreePlace::of(placement);
  const bool root = place.relative == 0;
  const Buffer held = root ? Buffer::input : Buffer::scratch;
  const Operand to_right = Operand::slot(Index::plus(1));
  const Operand from_left = Operand::slot(Index::plus(-1));
  Lane lane{"scatter", false, {}};
  add_scatter(lane, place, held);

  const bool end = place.relative == p - 1;
  if (!end) lane.steps.push_back(copy_step({to_right}, own_block(held)));
  for (int k = 1; k < p; ++k) {
    const bool passes_on = !end && k < p - 1;  // the right neighbour has its own block
    if (root && passes_on) lane.steps.push_back(copy_step({to_right}, own_block(held, -k)));
    if (root) continue;
    const Operand output = own_block(Buffer::output, -k);
    lane.steps.push_back(copy_step(passes_on ? std::vector{output, to_right} : std::vector{output}, from_left));
  }
  lane.steps.push_back(
      root ? copy_step({Operand::own(Buffer::output, all_blocks(p))}, Operand::own(Buffer::input, all_blocks(p)))
           : copy_step({own_block(Buffer::output)}, own_block(held)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
