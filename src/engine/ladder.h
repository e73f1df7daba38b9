// The ladder of a verb: which of its candidates is predicted to be the quickest, up to which size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/offers.h"
#include "schedule/algorithms/table.h"
#include "topology/rates.h"

namespace tutti::engine {

// Work is cut into pieces of this size: small enough for the second-level cache, large enough to hide the flags.
inline constexpr std::uint64_t kSegmentBytes = 256 << 10;

struct Rung {
  std::uint64_t bytes;  // up to here; of the vector, or of all chunks together
  const schedule::Algorithm* row;
};

// Seconds that a call which moves `bytes` takes by `row`. Beyond a few ranks the price is carried on from smaller
// groups of the same kind, because playing thousands of ranks would take longer than the calls themselves.
double predicted(const schedule::Algorithm& row, int ranks, const Offers& offers, std::uint64_t bytes,
                 const topology::Rates& rates);

// Prices every candidate at every power of two. The last rung takes any size. Pure: all ranks come to the same.
std::vector<Rung> ladder(std::span<const schedule::Algorithm* const> rows, int ranks, const Offers& offers,
                         const topology::Rates& rates);

// Up to how many bytes the ladder is quicker than `row`.
std::uint64_t border(std::span<const Rung> rungs, const schedule::Algorithm& row, int ranks, const Offers& offers,
                     const topology::Rates& rates);

}  // namespace tutti::engine
