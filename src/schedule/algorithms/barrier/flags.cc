// Flags barrier: every rank raises its flag, and leaves when it has seen all others'.
//
//   rank 0   raise   sees 1 2 3
//   rank 1   raise   sees 0 2 3        one synchronisation deep
//   rank 2   raise   sees 0 1 3
//   rank 3   raise   sees 0 1 2
//
// Needs flags in shared memory. Cost: alpha, and p - 1 loads.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program flags_barrier(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::barrier, "flags", placement, 1, 0);
  if (p == 1) return alone(std::move(program));

  constexpr int kMeetLane = 0, kRaised = 0;
  program.lanes = {{"meet", true, {wait_step({}), wait_step(wait_for_others(p, kMeetLane, kRaised))}}};
  return program;
}

}  // namespace tutti::schedule
