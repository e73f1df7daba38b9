// Cost: how long a collective takes on a machine that is described by a few measured numbers.
//
// Every rank runs one step at a time, whichever of its lanes is ready first; a step takes a fixed time and time per
// byte, and what it publishes or sends is seen by others a latency later. Ranks that outnumber the cores take turns.
// So the schedule itself is priced, with its overlap, its credits and its critical path, and not a formula about it.
// Long calls are priced by their first segments and go on at the pace of the last of these.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/lower.h"

namespace tutti::schedule {

// Seconds, or seconds per byte. What `tutti tune` measures.
struct Rates {
  double step = 0;      // to run a step, whatever its size
  double message = 0;   // alpha: from the end of a send until the receiver sees the message
  double progress = 0;  // alpha: from the end of a published step until a peer sees it
  double call = 0;      // to send or receive over a stream: the system call, at each end
  double copy = 0;      // beta: one byte from memory to memory
  double peer = 0;      // beta: more of it where the byte comes from a peer's memory or message
  double stream = 0;    // beta: one byte through a stream, at each end
  double store = 0;     // beta: every further destination of a byte
  double reduce = 0;    // gamma: every further source of a byte
  double turn = 0;      // to hand a core from one rank to another
  int cores = 1;        // that the ranks share

  bool operator==(const Rates&) const = default;
};

// Seconds until the last rank has finished, for `count` elements (of the vector, or of each chunk). The programs of all
// ranks. Throws Error(invalid_argument) where they wait for each other for ever.
double predict(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes, const Rates& rates);

}  // namespace tutti::schedule
