#include "handmade.h"

#include <utility>

#include "program_sets.h"
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

std::vector<Lowered> both(Program first, Program second, std::uint32_t credits) {
  return {lower(std::move(first), shared_memory(credits)), lower(std::move(second), shared_memory(credits))};
}

Program empty_broadcast(int rank, int blocks) {
  return begin_program(Verb::broadcast, "handmade", {2, rank, 0}, blocks, 1);
}

}  // namespace

std::vector<Lowered> ordered_by_credits(int depth, std::uint32_t credits) {
  const BlockSet sent{Index::absolute(0), 1, 1}, stored{Index::absolute(1), 1, 1};
  const Index other = Index::plus(1);
  Program from = empty_broadcast(0, 2), to = empty_broadcast(1, 2);
  for (Program* program : {&from, &to}) {
    program->scratch_planes = 2;
    program->scratch_depth = depth;
  }
  from.lanes = {
      {"give",
       true,
       {copy_step({Operand::slot(other)}, Operand::own(Buffer::input, sent)),
        copy_step({Operand::window(other, Buffer::scratch, stored)}, Operand::own(Buffer::input, stored)),
        copy_step({Operand::own(Buffer::output, all_blocks(2))}, Operand::own(Buffer::input, all_blocks(2)))}}};
  to.lanes = {{"take",
               false,
               {copy_step({Operand::own(Buffer::scratch, stored, 1)}, Operand::own(Buffer::scratch, stored),
                          {{other, 0, 1, 0}}),
                copy_step({Operand::own(Buffer::output, sent)}, Operand::slot(other)),
                copy_step({Operand::own(Buffer::output, stored)}, Operand::own(Buffer::scratch, stored, 1))}}};
  return both(std::move(from), std::move(to), credits);
}

std::vector<Lowered> ordered_by_messages() {
  const BlockSet all = all_blocks(1);
  const Operand other = Operand::slot(Index::plus(1));
  const Operand input = Operand::own(Buffer::input, all), scratch = Operand::own(Buffer::scratch, all);
  Program from = empty_broadcast(0, 1), to = empty_broadcast(1, 1);
  from.scratch_planes = to.scratch_planes = 1;
  from.lanes = {
      {"give",
       false,
       {copy_step({scratch}, other),
        copy_step({Operand::window(Index::plus(1), Buffer::output, all), Operand::own(Buffer::output, all)}, input),
        copy_step({other}, input)}}};
  to.lanes = {{"take", false, {copy_step({other}, Operand::own(Buffer::input, all)), copy_step({scratch}, other)}}};
  return both(std::move(from), std::move(to), 1);
}

}  // namespace tutti::schedule
