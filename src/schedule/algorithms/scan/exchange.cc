// Exchange scan: everyone sends its vector to all ranks above it, and everyone reduces what it has been sent.
//
//   rank       0            1            2            3
//   send     a -> 1,2,3   b -> 2,3     c -> 3
//   reduce   a            a+b          (a+b)+c      (a+b)+(c+d)     in the order of prefixes
//
// Nobody waits for a rank above it, so low ranks may run ahead. An exclusive scan leaves the rank's own input out.
// Cost: alpha + (p-1)(n beta + n gamma): one message deep, which is what counts for small vectors.
#include <bit>

#include "schedule/algorithms/build.h"
#include "schedule/algorithms/scan/prefix.h"

namespace tutti::schedule {
namespace {

Program exchange(Verb verb, const Placement& placement) {
  Program program = begin_program(verb, "exchange", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  // The last rank needs the most: so many operands, the largest block of them at once.
  const bool inclusive = verb == Verb::scan;
  const int most = inclusive ? placement.ranks : placement.ranks - 1;
  const int block = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
  program.landing_planes = most == 1 ? 0 : inclusive && block == most ? most - 1 : block;  // its own is there
  program.scratch_planes = prefix_planes(most);

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  std::vector<Operand> above, below;
  for (int rank = placement.rank + 1; rank < placement.ranks; ++rank)
    above.push_back(Operand::slot(Index::absolute(rank)));
  for (int rank = 0; rank < placement.rank; ++rank) below.push_back(Operand::slot(Index::absolute(rank)));
  if (inclusive) below.push_back(input);
  Lane lane{"exchange", false, {}};
  if (!above.empty()) lane.steps.push_back(copy_step(above, input));
  if (!below.empty()) {
    for (Step& step : prefix_steps(below, Operand::own(Buffer::output, all_blocks(1))))
      lane.steps.push_back(std::move(step));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace

Program exchange_scan(const Placement& placement) { return exchange(Verb::scan, placement); }
Program exchange_exclusive_scan(const Placement& placement) { return exchange(Verb::exclusive_scan, placement); }

}  // namespace tutti::schedule
