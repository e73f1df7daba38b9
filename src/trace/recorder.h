// Records events into a ring that outlives the process: a file, mapped, whose pages the system keeps when the process
// is killed. recording.h reads it, then or meanwhile.
//
// To record allocates nothing and makes no system call: the pages are there from the start, and the clock is read
// without the system's help. Any thread may record. In a folder of memory (/dev/shm) nothing is ever written to a disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trace/ring.h"

namespace tutti::trace {

// The ring of a rank in a folder of traces.
std::string ring_path(const std::string& folder, int rank);

class Recorder {
 public:
  static constexpr std::uint64_t kEvents = std::uint64_t{1} << 16;  // 4 MiB

  // Makes the rank's ring anew, in the place of one that an earlier run left; `capacity` in events, a power of two of
  // at most kMostEvents. Throws Error(invalid_argument) and Error(system).
  Recorder(const std::string& folder, int rank, int size, std::uint64_t capacity = kEvents);
  // The same in zeroed memory of the caller's, ring_bytes(capacity) of it.
  Recorder(std::shared_ptr<std::byte> memory, int rank, int size, std::uint64_t capacity);

  void record(const TraceEvent& event) { ring_.record(event); }
  // The clock of events.
  static std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }

 private:
  std::shared_ptr<std::byte> memory_;
  Ring ring_;
};

}  // namespace tutti::trace
