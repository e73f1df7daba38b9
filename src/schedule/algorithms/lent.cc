// Lent messages: the receiver copies them out of the sender's own memory, once, with a system call.
//
//   rank 0   input  =======================>  output   rank 1      no slot, no stage in between
//
// Messages leave from memory that is not written again before the call ends, so most programs are those of other rows;
// a reduce goes straight to the root. The sender stays in the call until all it lent was copied.
// Cost: that of the other row, but with one copy for every message instead of two.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

Program named_lent(Program program) {
  program.algorithm = "lent";
  return program;
}

}  // namespace

Program lent_broadcast(const Shape& shape) { return named_lent(binomial_broadcast(shape)); }
Program lent_scatter(const Shape& shape) { return named_lent(linear_scatter(shape)); }
Program lent_gather(const Shape& shape) { return named_lent(linear_gather(shape)); }
Program lent_all_gather(const Shape& shape) { return named_lent(ring_all_gather(shape)); }
Program lent_all_to_all(const Shape& shape) { return named_lent(pairwise_all_to_all(shape)); }
Program lent_scan(const Shape& shape) { return named_lent(exchange_scan(shape)); }
Program lent_exclusive_scan(const Shape& shape) { return named_lent(exchange_exclusive_scan(shape)); }
Program lent_reduce_scatter(const Shape& shape) { return named_lent(pairwise_reduce_scatter(shape)); }

// The root reduces all inputs at once, in canonical order. Cost: alpha + (p-1) n (beta + gamma), all of it at the root.
Program lent_reduce(const Shape& shape) {
  Program program = begin_program(Verb::reduce, "lent", shape, 1, 1);
  if (shape.ranks == 1) return alone(std::move(program));
  program.landing_planes = shape.ranks - 1;
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  if (shape.rank != shape.root) {
    program.lanes = {{"lend", false, {copy_step({Operand::slot(Index::absolute(shape.root))}, input)}}};
    return program;
  }
  std::vector<Operand> everyone;
  for (int rank = 0; rank < shape.ranks; ++rank)
    everyone.push_back(rank == shape.rank ? input : Operand::slot(Index::absolute(rank)));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  program.lanes = {{"reduce", false, {reduce_step({output}, everyone, true)}}};
  return program;
}

Program lent_message(const Shape& shape) { return named_lent(send_recv(shape)); }

}  // namespace tutti::schedule
