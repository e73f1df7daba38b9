#include "tools/bench/row.h"

#include <algorithm>
#include <cmath>

#include "schedule/verbs.h"
#include "tools/bench/driver/layout.h"

namespace tutti::bench {
namespace {

// Between neighbours, so that few rounds have quartiles, too. `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

}  // namespace

double median_of(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return quantile(numbers, 0.5);
}

Timing timing_of(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  Timing timing;
  timing.median_us = quantile(us, 0.5);
  timing.min_us = us.front();
  timing.spread = timing.median_us > 0 ? (quantile(us, 0.75) - quantile(us, 0.25)) / 2 / timing.median_us : 0;
  timing.rounds = static_cast<int>(us.size());
  return timing;
}

std::uint64_t Row::bytes() const {
  const std::uint64_t one = cell.count * size_of(cell.type);
  return cell.verb == Verb::barrier ? 0 : has_chunks(cell.verb) ? one * static_cast<std::uint64_t>(ranks) : one;
}

double Row::algbw() const {
  return timing.median_us > 0 ? static_cast<double>(bytes()) / (timing.median_us * 1e-6) / 1e9 : 0;
}

// What the links carried, so that it can be held against what they can.
double Row::busbw() const { return algbw() * schedule::least_moved(cell.verb, ranks); }

std::uint64_t count_for(Verb verb, DType type, int ranks, std::uint64_t bytes) {
  if (verb == Verb::barrier) return 0;
  const std::uint64_t element = size_of(type) * (has_chunks(verb) ? static_cast<std::uint64_t>(ranks) : 1);
  return std::max<std::uint64_t>(1, bytes / element);
}

}  // namespace tutti::bench
