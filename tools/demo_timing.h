// The run part of the demo: all_reduce between real processes of this machine, checked, then timed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

// One Timing per size. An empty algorithm lets the library choose.
std::vector<Timing> time_sums(int ranks, const std::string& algorithm, Memory memory,
                              const std::vector<std::size_t>& sizes);

}  // namespace tutti::tools
