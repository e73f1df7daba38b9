// What a ring holds: the last events of a rank, read while they are recorded, or after their process has ended in
// whatever way.
//
// A file may hold anything: what is no ring is an Error, and nothing in it is believed that its size does not bear out.
// Of a file that was cut short within its events those are read that are there. Reading maps nothing, so that a file
// which is cut short meanwhile is an Error as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/ring.h"

namespace tutti::trace {

// Of events, by whose they are.
struct EventCounts {
  std::uint64_t own = 0, others = 0;  // of the thread that owns the ring, and of all others

  std::uint64_t sum() const { return own + others; }
  bool operator==(const EventCounts&) const = default;
};

struct Recording {
  struct Communicator {
    std::uint64_t id = 0;
    int size = 0;
    std::vector<int> members;  // ranks of the job, by rank; empty where they are those of the job as they are

    // The rank of the job; -1: there is none.
    int job_rank(int rank) const {
      if (rank < 0 || rank >= size) return -1;
      return members.empty() ? rank : members[static_cast<std::size_t>(rank)];
    }
    bool operator==(const Communicator&) const = default;
  };

  RingFacts facts;
  bool ended = false;       // its rank has said so
  ClockPair first, latest;  // of its clocks
  EventCounts written;      // since the ring was made, until reading began
  EventCounts overwritten;  // of those asked for: the first, by later ones
  std::uint64_t torn = 0;   // in the middle of being written, overwritten meanwhile, or cut off
  std::vector<TraceEvent>
      events;                  // what is left: the owner's in the order in which they were recorded, then the others'
  std::uint64_t nameless = 0;  // so often there was no room for a name
  std::vector<std::string> names;  // by number, empty where there is none
  std::vector<Communicator> communicators;

  std::uint64_t lost() const { return overwritten.sum() + torn; }
  TicksToNs clock() const { return {first, latest}; }
};

// Events from these numbers on, so that a reader can go on where it was (Recording::written). Throws Error(system)
// where the file cannot be read, Error(invalid_argument) where it is no ring of this version.
Recording read_recording(const std::string& path, const EventCounts& first = {});
// Of a ring that lies in memory and that nobody writes.
Recording read_recording(std::span<const std::byte> image, const EventCounts& first = {});
// Whether a process that lives records to it: its recorder holds a lock on the file, of which nothing is left once the
// process has ended in whatever way.
bool is_recorded(const std::string& path);
// Whether it is a ring of this job, and its rank records no more. False where it cannot be read.
bool has_ended(const std::string& path, std::uint64_t job);

}  // namespace tutti::trace
