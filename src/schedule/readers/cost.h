// Cost: how long a collective takes on a machine that is described by a few measured numbers.
//
// Every rank runs one step at a time, whichever of its lanes is ready first; a step takes a fixed time and time per
// byte (step_time.h), and what it publishes or sends is seen by others a latency later. Ranks that outnumber the cores
// of their host take turns. Messages between hosts have rates of their own, and follow each other through the adapters
// of their hosts, which all ranks there share.
// So the schedule itself is priced, with its overlap, its credits and its critical path, and not a formula about it.
// Long calls are priced by their first segments and go on at the pace of the last of these.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/lower.h"
#include "topology/rates.h"

namespace tutti::schedule {

using topology::LinkRates, topology::Rates;

// Seconds until the last rank has finished, for `count` elements (of the vector, or of each chunk). The programs of all
// ranks. Throws Error(invalid_argument) where they wait for each other for ever.
double predict(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
               const LinkRates& rates);

// Seconds for each of many such calls, one after the other, as they are timed: a rank begins the next when it has ended
// its part, so that calls by which nobody hears of all others, as a broadcast, overlap. Scratch that peers look into is
// used again when all have left it.
double predict_repeated(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
                        const LinkRates& rates);

}  // namespace tutti::schedule
