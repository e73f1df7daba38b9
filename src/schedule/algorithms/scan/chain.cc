// Chain scan: the running sum goes from rank to rank, segment after segment.
//
//   inclusive   0 --a--> 1 --ab--> 2 --abc--> 3        each adds its own and keeps the sum it passes on
//   exclusive   0 --a--> 1 --ab--> 2 --abc--> 3        ... and keeps the sum that came
//
// Cost: (p - 1 + k)(alpha + n/k (beta + gamma)) with k segments: each rank sends and adds the vector once.
// The order is ((ab)c)d, from the left: the ranks' own order, but not that of recursive doubling.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

const Operand kBefore = Operand::slot(Index::plus(-1)), kAfter = Operand::slot(Index::plus(1));

}  // namespace

Program chain_scan(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::scan, "chain", placement, 1, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = 1;

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  std::vector<Operand> sums{Operand::own(Buffer::output, all_blocks(1))};
  if (placement.rank < p - 1) sums.push_back(kAfter);
  program.lanes = {{"chain",
                    false,
                    {placement.rank == 0 ? copy_step(std::move(sums), input)
                                         : reduce_step(std::move(sums), {kBefore, input}, false)}}};
  return program;
}

Program chain_exclusive_scan(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::exclusive_scan, "chain", placement, 1, 1);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 2 ? 1 : 0;
  program.landing_planes = p > 2 ? 1 : 0;

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  const Operand sum = Operand::own(Buffer::scratch, all_blocks(1));
  Lane lane{"chain", false, {}};
  if (placement.rank == 0) {
    lane.steps = {copy_step({kAfter}, input)};
  } else if (placement.rank == p - 1) {
    lane.steps = {copy_step({output}, kBefore)};
  } else {
    // In place the output is the input, which is needed until the next rank's sum is on its way.
    lane.steps = {copy_step({sum}, kBefore), reduce_step({kAfter}, {sum, input}, false), copy_step({output}, sum)};
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
