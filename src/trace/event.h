// One event of a trace: a step of a program, when it began and when it was done.
//
// Plain data without padding, written as it lies in memory; a change of it is a change of kRingVersion (ring.h).
#pragma once

#include <cstdint>
#include <type_traits>

namespace tutti::trace {

struct TraceEvent {
  std::uint64_t communicator = 0;  // a number that all ranks of the communicator know it by
  std::uint64_t sequence = 0;      // of the call in it
  std::uint64_t segment = 0;
  std::uint64_t begin_ns = 0;  // of the recorder's clock: from here on the step waited for nothing
  std::uint64_t end_ns = 0;
  std::uint32_t lane = 0, step = 0;  // in the lowered program of this rank
  std::int32_t peer = -1;            // the first other rank whose memory or message the step names; -1: none
  std::uint32_t reserved = 0;

  bool operator==(const TraceEvent&) const = default;
};
static_assert(std::has_unique_object_representations_v<TraceEvent>);

}  // namespace tutti::trace
