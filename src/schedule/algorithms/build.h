// Small words that the generators share; nothing here knows an algorithm.
#pragma once

#include <string>
#include <utility>

#include "schedule/algorithms/table.h"
#include "schedule/program.h"

namespace tutti::schedule {

inline Program begin_program(Verb verb, std::string algorithm, const Shape& shape, int blocks, int message_blocks) {
  Program program;
  program.verb = verb;
  program.algorithm = std::move(algorithm);
  program.ranks = shape.ranks;
  program.rank = shape.rank;
  program.root = shape.root;
  program.blocks = blocks;
  program.message_blocks = message_blocks;
  return program;
}

inline BlockSet all_blocks(int blocks) { return {Index::absolute(0), 1, blocks}; }

inline Step copy_step(std::vector<Operand> destinations, Operand source, std::vector<Wait> waits = {}) {
  return {StepOp::copy, false, std::move(destinations), {source}, std::move(waits)};
}

inline Step reduce_step(std::vector<Operand> destinations, std::vector<Operand> sources, bool last,
                        std::vector<Wait> waits = {}) {
  return {StepOp::reduce, last, std::move(destinations), std::move(sources), std::move(waits)};
}

inline Step wait_step(std::vector<Wait> waits) { return {StepOp::wait, false, {}, {}, std::move(waits)}; }

// One rank has nothing to ask of others: output <- input.
inline Program alone(Program program) {
  program.blocks = 1;
  program.message_blocks = 0;
  program.landing_planes = 0;
  program.lanes = {
      {"alone",
       false,
       {copy_step({Operand::own(Buffer::output, all_blocks(1))}, Operand::own(Buffer::input, all_blocks(1)))}}};
  return program;
}

// The part a rank plays in an algorithm made for a power of two q <= p: with r = p - q, ranks 2i and 2i+1 (i < r) join
// first, the even one goes on as core member i, and the odd one stands aside until the result comes back.
struct CoreRole {
  int core;     // q
  int pairs;    // r
  int member;   // this rank's number in the core, -1 for an odd partner that stands aside
  int partner;  // the other rank of the pair, -1 without one

  static CoreRole of(int ranks, int rank);
  int rank_of(int core_member) const { return core_member < pairs ? 2 * core_member : core_member + pairs; }
};

}  // namespace tutti::schedule
