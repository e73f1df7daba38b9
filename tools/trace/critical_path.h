// The chain of steps that a call's time is made of: from the last step that ended back to when all ranks had come, at
// each step to what it could not begin before. Its gaps and lengths add up to the time between the two. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/trace/traced_job.h"

namespace tutti::analysis {

struct PathStep {
  std::size_t step = 0;     // of TracedJob::steps
  double gap_us = 0;        // since the step before ended, or since all ranks had come
  double length_us = 0;     // of its own time, what lies behind that
  bool by_message = false;  // the step before is the sender's of its message
};

// From the first to the last; empty where the trace has no steps of the call (index of TracedJob::calls).
std::vector<PathStep> critical_path(const TracedJob& trace, std::size_t call);

}  // namespace tutti::analysis
