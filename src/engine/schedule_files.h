// Schedules that callers bring in files: read, verified, and fitted to the group that is to run them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/offers.h"
#include "choice/given.h"
#include "schedule/lower.h"
#include "tutti/communicator.h"

namespace tutti::engine {

struct ScheduleFile {
  Verb verb;
  std::string path;
  std::uint64_t hash;  // of its text
  std::vector<schedule::Lowered> programs;
};
using ScheduleFiles = std::vector<ScheduleFile>;

// Those that Options::schedule names, each verified for the transport it was written for. Throws
// Error(invalid_argument) that names the file and tells what is wrong with it.
ScheduleFiles read_schedules(const Options& options);

// "all_reduce=1f3a...,...", for ranks to compare; "unset" where there are none.
std::string words_of(const ScheduleFiles& files);

// Throws Error(invalid_argument) where the schedule is for another number of ranks.
void require_ranks(const ScheduleFile& file, int ranks);

// Why the transport with these offers cannot run it, or empty.
std::string why_not(const ScheduleFile& file, const Offers& offers);

// The schedule for a group of its number of ranks that has `offers`, verified once more for these. Throws
// Error(unsupported) where the transport cannot run it.
choice::Given fitted(const ScheduleFile& file, const Options& options, const Offers& offers);

}  // namespace tutti::engine
