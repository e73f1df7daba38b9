// What all rings of a job hold together: slices of time by rank and row, on one axis. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/recording.h"

namespace tutti::trace {

// An event on the axis of the job: nanoseconds since its first one.
struct Slice {
  TraceEvent event;
  int rank = 0;
  int row = 0;  // an index into JobTrace::rows
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t middle_ns = 0;   // of a call when it was taken up, of a bucket when it set out
  std::int64_t all_in_ns = -1;  // of a collective: when the last rank had entered; -1: not known
};

struct JobTrace {
  struct Host {
    std::string name;
    std::vector<int> ranks;  // those that are there
    std::int64_t offset_ns = 0, error_ns = 0;
  };
  struct Part {
    bool found = false;
    std::string why;      // it is not found, where there was something
    Recording recording;  // without its events: they are slices
    std::uint64_t events = 0;
    std::uint64_t nameless = 0;  // of them, calls of communicators that its table has no room for
  };

  std::uint64_t job = 0;
  int ranks = 1;
  int recorded = 1;  // of them
  std::string library;
  std::vector<Host> hosts;
  std::vector<Part> parts;         // by rank
  std::vector<std::string> rows;   // what a rank's rows hold, by number
  std::vector<Slice> slices;       // in the order of their begins
  std::vector<std::string> files;  // that were read

  const Recording::Communicator* communicator_of(const Slice& slice) const;
  std::string_view name_of(const Slice& slice) const;  // of an algorithm or a span
  // The rank of the job that has this number in the slice's communicator; -1: there is none.
  int job_rank(const Slice& slice, int rank) const;
  // Of those that were recorded.
  bool all_found() const;
  bool all_ended() const;
};

// Reads the rings of a folder. Throws Error(invalid_argument) where there is none, or where they are of several jobs.
JobTrace read_job(const std::string& folder);

}  // namespace tutti::trace
