// GOAL: the programs of all ranks as a graph of sends, receives and computations, in the text that other simulators of
// clusters read (LogGOPSim, ATLAHS), so that they can check ours.
//
// The steps of a lane follow each other; of a step the receives come first, then the reduction, then the sends. Each
// message has a tag of its own on its edge. Credits, and that output is not written before everybody was heard, have no
// form there: what they hold up is held up only where they are known.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "schedule/lower.h"

namespace tutti::schedule {

struct GoalOptions {
  std::uint64_t count = 0;  // elements of the vector, or of each chunk
  std::uint32_t element_bytes = 4;
  double reduced_bytes_per_ns = 10;  // by one rank
};

// Throws Error(unsupported) where the programs reach into each other's memory or wait for each other's flags, and
// Error(invalid_argument) where a reduction would take longer than can be said.
std::string to_goal(std::span<const Lowered> programs, const GoalOptions& options);

}  // namespace tutti::schedule
