// One message between two ranks: the root (rank 0 of the pair) sends, the other receives.
//
//   0 ---> 1
//
// Cost: alpha + n beta; segments follow one another through the credits.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program message_send_recv(const Placement& placement) {
  Program program = begin_program(Verb::send_recv, "message", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  Lane lane{"message", false, {}};
  if (placement.rank == placement.root) {
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(1))}, Operand::own(Buffer::input, all_blocks(1))));
  } else {
    lane.steps.push_back(copy_step({Operand::own(Buffer::output, all_blocks(1))}, Operand::slot(Index::plus(-1))));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
