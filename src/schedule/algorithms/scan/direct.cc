// Direct scan: every rank reduces the inputs of the ranks below it, and its own, into its output.
//
//   inputs      0 -----+--------+--------+
//               1      |  ------+--------+
//               2      |  |     |   -----+
//   outputs     0      01       012      0123       all at once
//
// Needs windows onto the callers' own buffers (symmetric memory). An exclusive scan leaves the rank's own input out.
// Cost: 2 alpha + (p-1) n (beta + gamma) at the last rank. Not in place: others would load what was overwritten.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/scan/prefix.h"

namespace tutti::schedule {
namespace {

std::vector<Step> steps_of(Verb verb, int rank) {
  std::vector<Operand> operands;
  for (int below = 0; below < rank; ++below)
    operands.push_back(Operand::window(Index::absolute(below), Buffer::input, all_blocks(1)));
  if (verb == Verb::scan) operands.push_back(Operand::own(Buffer::input, all_blocks(1)));
  if (operands.empty()) return {};
  std::vector<Step> steps = prefix_steps(operands, Operand::own(Buffer::output, all_blocks(1)));
  for (int below = 0; below < rank; ++below)
    steps.front().waits.push_back({Index::absolute(below), Wait::kEntryLane, 0, 0});
  return steps;
}

Program direct(Verb verb, const Shape& shape) {
  Program program = begin_program(verb, "direct", shape, 1, 0);
  if (shape.ranks == 1) return alone(std::move(program));
  program.scratch_planes = prefix_planes(verb == Verb::scan ? shape.ranks : shape.ranks - 1);

  constexpr int kReduceLane = 0;
  Lane leave{"leave", false, {}};
  std::vector<Wait> readers;
  for (int above = shape.rank + 1; above < shape.ranks; ++above) {
    const int last = static_cast<int>(steps_of(verb, above).size()) - 1;
    readers.push_back({Index::absolute(above), kReduceLane, last, 0});
  }
  if (!readers.empty()) leave.steps.push_back(wait_step(std::move(readers)));
  program.lanes = {{"reduce", true, steps_of(verb, shape.rank)}, std::move(leave)};
  return program;
}

}  // namespace

Program direct_scan(const Shape& shape) { return direct(Verb::scan, shape); }
Program direct_exclusive_scan(const Shape& shape) { return direct(Verb::exclusive_scan, shape); }

}  // namespace tutti::schedule
