// What follows from the calls of several ranks together: when all had entered, which messages went from whom to whom,
// and how often each algorithm ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/job_trace.h"
#include "tutti/types.h"

namespace tutti::trace {

// Fills in Slice::all_in_ns of the collectives whose every rank is there.
void tell_all_in(JobTrace& job);

// A message, from the slice that sent it to the one that received it: indices into JobTrace::slices.
struct Flow {
  std::size_t from = 0, to = 0;
};
std::vector<Flow> flows_of(const JobTrace& job);

struct RanSchedule {
  Verb verb = Verb::all_reduce;
  std::string algorithm;
  int ranks = 1;
  std::uint64_t calls = 0;
};
std::vector<RanSchedule> schedules_of(const JobTrace& job);

}  // namespace tutti::trace
