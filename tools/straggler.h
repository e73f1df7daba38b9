// Who is it that all others wait for? Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tutti::tools {

struct Straggler {
  std::size_t rank = 0;
  double late_us = 0;     // how much later than the others it comes, in the median step
  double share = 0;       // of the steps in which it was the last
  std::size_t since = 0;  // the step from which on it was in most: a row of the arrivals, never behind the last
};

// `arrivals`: by step, by rank, when it called. A rank is named that comes last in most steps, later than the middle of
// the others by a good part of what a step takes (`step_us`) and several times as late as whoever comes next: lots
// make somebody last in every step, and nobody in most of them.
std::optional<Straggler> find_straggler(const std::vector<std::vector<double>>& arrivals, double step_us);

}  // namespace tutti::tools
