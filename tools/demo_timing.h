// The run part of the demo: all_reduce between real processes of this machine, checked, then timed.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/communicator.h"

namespace tutti::tools {

enum class Memory : bool { ordinary, symmetric };

struct Timing {
  std::size_t bytes = 0;
  double median_us = 0;   // the slowest rank's median
  std::string algorithm;  // what ran
};

// Sums vectors of `count` floats over `ranks` processes by `algorithm` and compares every element on every rank with a
// plain sum. Returns what went wrong, or empty.
std::string check_sum(int ranks, const std::string& algorithm, std::size_t count);

// all_reduce of `bytes` of floats as the library chooses to run it.
Timing time_sum(int ranks, TransportKind transport, Memory memory, std::size_t bytes);

}  // namespace tutti::tools
