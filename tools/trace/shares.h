// Where the time of ranks went: computing, communicating, waiting; and gamma, communication over computing. Pure.
//
//   span           = compute + exposed + waiting + other
//   communication  when calls were under way, from when all their ranks had come
//   exposed        of that, what no computing covers
//   waiting        in calls for ranks that had not come yet, and not covered either
//
//   gamma raw      communication / compute
//   gamma exposed  exposed / compute
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/trace/traced_job.h"

namespace tutti::analysis {

struct Shares {
  double span_us = 0, compute_us = 0, communication_us = 0, exposed_us = 0, waiting_us = 0;

  double other_us() const { return span_us - compute_us - exposed_us - waiting_us; }
  // 0 where nothing was computed.
  double gamma_raw() const { return compute_us > 0 ? communication_us / compute_us : 0; }
  double gamma_exposed() const { return compute_us > 0 ? exposed_us / compute_us : 0; }
};

struct RankShares {
  int rank = 0;
  Shares shares;
};

// One step of training, or all of a trace that has none.
struct StepShares {
  std::optional<std::int64_t> step;
  std::vector<RankShares> ranks;  // that are in the trace
  Shares mean;
};

Shares shares_of(const RankTimeline& rank, const Interval& window);
std::vector<StepShares> shares_by_step(const TracedJob& trace);
// Of every rank over all steps, and of all ranks: times are means of a step.
StepShares mean_step(const std::vector<StepShares>& steps);

}  // namespace tutti::analysis
