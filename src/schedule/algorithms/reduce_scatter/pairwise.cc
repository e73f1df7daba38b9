// Pairwise reduce_scatter: every rank sends each other rank that one's chunk, and sums its own once all are there.
//
// 4 ranks; chunk -> rank, nearest to the right first:
//
//   rank          0               1               2               3
//   send     1->1 2->2 3->3  2->2 3->3 0->0  3->3 0->0 1->1  0->0 1->1 2->2
//   reduce   0 of 0,1,2,3    1 of 0,1,2,3    2 of 0,1,2,3    3 of 0,1,2,3      each in canonical order
//
// Cost: (p-1) alpha + f n beta + f n gamma, f = (p-1)/p, n all chunks. Over streams what comes lands in one segment of
// scratch.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program pairwise_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::reduce_scatter, "pairwise", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = 1;

  Lane lane{"exchange", false, {}};
  for (int distance = 1; distance < p; ++distance) {
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(distance))}, own_block(Buffer::input, distance)));
  }
  std::vector<Operand> contributions;
  for (int rank = 0; rank < p; ++rank) {
    contributions.push_back(rank == placement.rank ? own_block(Buffer::input) : Operand::slot(Index::absolute(rank)));
  }
  program.scratch_planes = planes_of_hosts(placement);
  add_reduction(lane, placement, std::move(contributions), own_block(Buffer::output), block_at(0),
                program.scratch_planes);
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
