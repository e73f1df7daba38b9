// Direct scan: every rank loads its column of all inputs and stores that of all results into their outputs.
//
//   inputs       0: a b c d     1: e f g h     2: i j k l     3: m n o p
//                   |              |              |              |
//   rank 0 loads    a              e              i              m          rank 1 b, f, j, n, ...
//                   |              |              |              |
//   outputs         a              a+e            (a+e)+i        (a+e)+(i+m)
//
// Needs windows onto the callers' own buffers (symmetric memory). An exclusive scan stores each result one rank
// further, and leaves out the last input; it is not for use in place, where its results would take the places of inputs
// that are still needed. Cost: 2 alpha + 2 n beta + n (1 + lg p / 2) gamma.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/scan/columns.h"

namespace tutti::schedule {
namespace {

Program direct(Verb verb, const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(verb, "direct", placement, p, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kReduceLane = 0;
  std::vector<Operand> inputs = of_every_rank(placement, Buffer::input, block_at(0));
  const std::vector<Operand> outputs = of_every_rank(placement, Buffer::output, block_at(0));
  std::vector<std::optional<Operand>> results(outputs.begin(), outputs.end());
  if (verb == Verb::exclusive_scan) {
    inputs.pop_back();
    results.erase(results.begin());
  }
  Columns mine = columns(inputs, results, block_at(0));
  mine.steps.front().waits = others_entered(p);
  const int last = static_cast<int>(mine.steps.size()) - 1;
  program.scratch_planes = mine.planes;
  program.lanes = {{"reduce", true, std::move(mine.steps)},
                   {"leave", false, {wait_step(wait_for_others(p, kReduceLane, last))}}};
  return program;
}

}  // namespace

Program direct_scan(const Placement& placement) { return direct(Verb::scan, placement); }
Program direct_exclusive_scan(const Placement& placement) { return direct(Verb::exclusive_scan, placement); }

}  // namespace tutti::schedule
