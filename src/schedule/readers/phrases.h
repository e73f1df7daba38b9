// How the parts of a step are said in text: one vocabulary for every reader that speaks to people.
//
//   rank+1              an index, relative to the rank that runs the step; it wraps around
//   →rank+1  ←rank-1    a message to a rank, and one from it
//   input[rank+1]       own memory, a block; input is all of it, scratch.1 the second plane of scratch
//   scratch[2, 3; 6…7]  runs of neighbours: 2, 3, then on from 6, up to 7
//   output@2[rank]      the same of rank 2
//   ←0…3                the same of ranks 0, 1, 2, 3
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/program.h"

namespace tutti::schedule {

std::string phrase_of(const Index& index);

// "[rank+1]"; empty for all blocks of the program.
std::string phrase_of(const BlockSet& blocks, int blocks_of_program);

enum class Side : bool { destination, source };
std::string phrase_of(std::span<const Operand> operands, Side side, int blocks_of_program);

// One phrase per condition: "reduce.0 of rank+1…rank+3, 2 segments back".
std::vector<std::string> phrases_of(std::span<const Wait> waits, const Program& program);

}  // namespace tutti::schedule
