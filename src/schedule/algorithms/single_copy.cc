// Single-copy messages: the receiver copies them out of the sender's own memory, once, with a system call.
//
//   rank 0   input  =======================>  output   rank 1      no slot, no stage in between
//
// Messages leave from memory that is not written again before the call ends, so most programs are those of other rows;
// a reduce goes straight to the root. The sender stays in the call until all it sent was copied.
// Cost: that of the other row, but with one copy for every message instead of two.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"

namespace tutti::schedule {
namespace {

Program named_single_copy(Program program) {
  program.algorithm = "single_copy";
  return program;
}

}  // namespace

Program single_copy_broadcast(const Placement& placement) { return named_single_copy(binomial_broadcast(placement)); }
Program single_copy_scatter(const Placement& placement) { return named_single_copy(linear_scatter(placement)); }
Program single_copy_gather(const Placement& placement) { return named_single_copy(linear_gather(placement)); }
Program single_copy_all_gather(const Placement& placement) { return named_single_copy(ring_all_gather(placement)); }
Program single_copy_all_to_all(const Placement& placement) {
  return named_single_copy(spread_out_all_to_all(placement));
}
Program single_copy_scan(const Placement& placement) { return named_single_copy(exchange_scan(placement)); }
Program single_copy_exclusive_scan(const Placement& placement) {
  return named_single_copy(exchange_exclusive_scan(placement));
}
Program single_copy_reduce_scatter(const Placement& placement) {
  return named_single_copy(pairwise_reduce_scatter(placement));
}

// The root reduces all inputs at once, in canonical order. Cost: alpha + (p-1) n (beta + gamma), all of it at the root.
Program single_copy_reduce(const Placement& placement) {
  Program program = begin_program(Verb::reduce, "single_copy", placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.scratch_planes = planes_of_hosts(placement);
  program.landing_planes = placement.ranks - 1;
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  if (placement.rank != placement.root) {
    program.lanes = {{"expose", false, {copy_step({Operand::slot(Index::absolute(placement.root))}, input)}}};
    return program;
  }
  std::vector<Operand> everyone;
  for (int rank = 0; rank < placement.ranks; ++rank)
    everyone.push_back(rank == placement.rank ? input : Operand::slot(Index::absolute(rank)));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  Lane lane{"reduce", false, {}};
  add_reduction(lane, placement, std::move(everyone), output, all_blocks(1), program.scratch_planes);
  program.lanes.push_back(std::move(lane));
  return program;
}

Program single_copy_send_recv(const Placement& placement) { return named_single_copy(message_send_recv(placement)); }

}  // namespace tutti::schedule
