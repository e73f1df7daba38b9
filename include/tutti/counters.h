// What a communicator has been called for.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "tutti/types.h"

namespace tutti {

// Counted by this rank for itself, from when the communicator was made. Calls that the library makes of its own accord,
// to make groups say, are not among them; probes and allocations are no calls of a verb.
struct VerbCounters {
  std::uint64_t calls = 0;  // blocking ones when they begin, async ones when they are submitted
  // Of the vector, or of all chunks that this rank knows of; of a receive what it has room for.
  std::uint64_t bytes = 0;
  // Time that the program was held up: from when a call, or a wait for an async one, had to wait for longer than a
  // brief spin, to its end. What ends within the spin (some tens of microseconds) is not timed at all.
  // After Communicator::time_calls() all of a blocking call, and all of a wait.
  std::chrono::nanoseconds waited{0};
  // After time_calls(), else 0: from the beginning of a call, or its submission, to its end. Of several at once each
  // counts.
  std::chrono::nanoseconds under_way{0};
};

struct Counters {
  std::array<VerbCounters, kVerbs> verbs;
  // After time_calls(), else 0: how long at least one call was under way.
  std::chrono::nanoseconds busy{0};

  const VerbCounters& operator[](Verb verb) const { return verbs[static_cast<std::size_t>(verb)]; }
};

}  // namespace tutti
