// What a ring holds: the last events of a rank, read while they are recorded, or after their process has ended in
// whatever way.
//
// A file may hold anything: what is no whole ring is an Error, and nothing in it is believed that its size does not
// bear out. Reading maps nothing, so that a file which is cut short meanwhile is an Error as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/ring.h"

namespace tutti::trace {

struct Recording {
  RingFacts facts;
  std::uint64_t written = 0;       // events since the ring was made, until reading began
  std::uint64_t overwritten = 0;   // of those asked for: the first, by later ones
  std::uint64_t torn = 0;          // in the middle of being written, or overwritten meanwhile
  std::vector<TraceEvent> events;  // the others, in the order in which they were recorded

  std::uint64_t lost() const { return overwritten + torn; }
};

// Events from number `first` on, so that a reader can go on where it was (Recording::written). Throws Error(system)
// where the file cannot be read, Error(invalid_argument) where it is no ring of this version.
Recording read_recording(const std::string& path, std::uint64_t first = 0);
// Of a ring that lies in memory and that nobody writes.
Recording read_recording(std::span<const std::byte> image, std::uint64_t first = 0);

}  // namespace tutti::trace
