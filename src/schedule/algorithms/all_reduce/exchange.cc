// Exchange all_reduce: everyone sends its whole vector to everyone, and everyone reduces all of them. For tiny vectors.
//
//   rank       0          1          2          3
//   send     a -> all   b -> all   c -> all   d -> all
//   reduce   a+b+c+d    a+b+c+d    a+b+c+d    a+b+c+d     each in canonical order
//
// Cost: alpha + (p-1)(n beta + n gamma): one message deep, which is what counts when the vector fits a cache line.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program exchange_all_reduce(const Placement& placement) {
  Program program = begin_program(Verb::all_reduce, "exchange", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.landing_planes = placement.ranks - 1;

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  std::vector<Operand> everyone_else, everyone;
  for (int distance = 1; distance < placement.ranks; ++distance)
    everyone_else.push_back(Operand::slot(Index::plus(distance)));
  for (int rank = 0; rank < placement.ranks; ++rank) {
    everyone.push_back(rank == placement.rank ? input : Operand::slot(Index::absolute(rank)));
  }
  Lane lane{"exchange", false, {copy_step(everyone_else, input)}};
  program.scratch_planes = planes_of_hosts(placement);
  add_reduction(lane, placement, std::move(everyone), output, all_blocks(1), program.scratch_planes);
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
