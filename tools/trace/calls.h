// What a trace tells of its calls: by verb, beside what was predicted, who waited for whom, and who kept all waiting.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/straggler.h"
#include "tools/trace/traced_job.h"

namespace tutti::analysis {

// All calls of a verb by one algorithm.
struct VerbTotals {
  std::string verb, algorithm;
  std::size_t calls = 0;
  double bytes = 0;
  double took_us = 0;
  double busbw = 0;  // of all of them together
  // Of those whose time was predicted.
  double predicted_us = 0, measured_us = 0;
  double usual_ratio = 0;  // measured over predicted in the median; 0 where nothing was predicted
};

// In the order in which they took most time.
std::vector<VerbTotals> totals_of(const TracedJob& trace);

// A call that took over twice as much more than predicted as its verb and algorithm usually do.
struct Outlier {
  std::size_t call = 0;
  double ratio = 0, usual_ratio = 0;
};
// In the order of what they took too long.
std::vector<Outlier> outliers_of(const TracedJob& trace);

// By who waited, and for whom. Waits that lie over each other, in async calls, count once.
std::map<std::pair<int, int>, double> waits_of(const TracedJob& trace);

// Whom all others wait for (find_straggler): by step, how late each rank was in the call that it was latest in; where
// there are no steps, by stretches of the calls, all that it was late in them. Steps in which no collective has all its
// parts say nothing, and do not count.
struct TracedStraggler {
  std::size_t rank = 0;
  double late_us = 0, share = 0;  // as of tools::Straggler
  std::int64_t since = 0;         // the number of the step, or where the trace has none, an index of the calls
  std::size_t stretch = 0;        // so many calls stand for a step; 0: steps do
};
std::optional<TracedStraggler> straggler_of(const TracedJob& trace);
inline constexpr std::size_t kLeastSteps = 3, kLeastCalls = 10;  // with fewer nobody is named

// The number of the step of training in which the call began; nothing where there is none.
std::optional<std::int64_t> step_of(const TracedJob& trace, const TracedCall& call);
std::vector<std::int64_t> step_numbers(const TracedJob& trace);

// The collective that took longest; nothing where there is none.
std::optional<std::size_t> slowest_call(const TracedJob& trace);
// A collective by what a report calls it, "1a#4", or where one alone has the number, "4".
std::vector<std::size_t> calls_named(const TracedJob& trace, const std::string& name);
std::string name_of(const TracedCall& call);

// The same trace with nothing but this step of training.
TracedJob only_step(const TracedJob& trace, std::int64_t number);

}  // namespace tutti::analysis
