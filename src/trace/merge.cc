#include "trace/merge.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/folders.h"
#include "base/system_error.h"
#include "trace/recorder.h"

namespace tutti::trace {

std::vector<std::string> missing_in(const JobTrace& job) {
  std::vector<std::string> sentences;
  const bool all_found = job.all_found();
  if (job.recorded < job.ranks) {
    sentences.push_back("a group of " + std::to_string(job.recorded) + " of the job's " + std::to_string(job.ranks) +
                        " ranks was recorded");
  }
  for (std::size_t rank = 0; rank < job.parts.size(); ++rank) {
    const JobTrace::Part& part = job.parts[rank];
    const std::string who = "rank " + std::to_string(rank);
    if (!part.found) {
      if (all_found) continue;
      sentences.push_back(part.why.empty() ? "nothing is left of " + who : who + " is left out: " + part.why);
      continue;
    }
    if (const std::uint64_t lost = part.recording.lost(); lost != 0) {
      sentences.push_back(who + " lost " + std::to_string(lost) + " of " +
                          std::to_string(part.recording.written.sum()) +
                          " events, the oldest; TUTTI_TRACE_EVENTS makes room for more");
    }
    if (part.nameless != 0) {
      sentences.push_back(who + " has more communicators than its ring has room for: " + std::to_string(part.nameless) +
                          " calls of theirs stand without a name");
    }
    if (part.recording.nameless != 0) {
      sentences.push_back(who + " has more names of algorithms and spans than its ring has room for: " +
                          std::to_string(part.recording.nameless) + " times one was left out");
    }
    if (!part.recording.ended) sentences.push_back(who + " was killed, or still runs: its part ends there");
  }
  return sentences;
}

std::string rings_of(const std::string& file) { return file + ".rings"; }

void remove_rings(const std::string& folder) { static_cast<void>(remove_all(folder)); }

bool all_ended(const std::string& folder, const RingFacts& facts) {
  int left = facts.rings();
  for (int rank = 0; rank < facts.size && left > 0; ++rank)
    left -= has_ended(ring_path(folder, rank), facts.job) ? 1 : 0;
  return left == 0;
}

Merged merge(const std::string& folder, const std::string& file) {
  const JobTrace job = read_job(folder);
  const std::string draft = file + ".draft-" + std::to_string(::getpid());
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    if (out) write_trace(out, job);
    if (!out.flush()) {
      const int error = errno;
      static_cast<void>(std::remove(draft.c_str()));
      errno = error;
      throw_errno("cannot write the trace '" + file + "'");
    }
  }
  if (std::rename(draft.c_str(), file.c_str()) != 0) throw_errno("cannot write the trace '" + file + "'");
  return {job.ranks, job.slices.size(), job.all_ended(), missing_in(job)};
}

}  // namespace tutti::trace
