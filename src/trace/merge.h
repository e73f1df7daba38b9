// The rings of a job made into one file, in the format that docs/trace.md tells of.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "trace/job_trace.h"

namespace tutti::trace {

struct Merged {
  int ranks = 1;
  std::uint64_t events = 0;
  bool all_ended = false;              // nobody records any more
  std::vector<std::string> sentences;  // what is missing; none where nothing is
};

// The folder of the rings that are to be merged into this file.
std::string rings_of(const std::string& file);
// Takes all rings out of it, if there is one.
void remove_rings(const std::string& folder);
// Whether the rings of all ranks of this job are there, and all have ended.
bool all_ended(const std::string& folder, const RingFacts& facts);
// Writes `file` anew, and at once: who reads it sees the one before or this one. Throws Error.
Merged merge(const std::string& folder, const std::string& file);

void write_trace(std::ostream& out, const JobTrace& job);
std::vector<std::string> missing_in(const JobTrace& job);

}  // namespace tutti::trace
