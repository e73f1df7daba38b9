// Traffic: what one rank does for one segment, counted. In blocks, not bytes, since counts are bound per call.
#pragma once

#include <cstdint>

#include "schedule/algorithms/table.h"
#include "schedule/program.h"

namespace tutti::schedule {

struct Traffic {
  std::int64_t steps = 0;
  std::int64_t messages_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t blocks_sent = 0;      // in messages
  std::int64_t blocks_received = 0;  // in messages
  std::int64_t blocks_loaded = 0;    // through windows
  std::int64_t blocks_stored = 0;    // through windows
  std::int64_t blocks_reduced = 0;   // operands beyond the first, over all reductions

  bool operator==(const Traffic&) const = default;
};

Traffic traffic_of(const Program& program);

// Of the ranks of a row, for one segment, what the one does that does the most of it.
struct BusiestRank {
  std::int64_t steps = 0;
  double moved = 0;          // in vectors, or in all chunks: loaded, stored, and sent or received, whichever is more
  std::int32_t scratch = 0;  // segments
};

// Of one that is hierarchical, on two hosts.
BusiestRank busiest_of(const Algorithm& row, int ranks, int root = 0);

}  // namespace tutti::schedule
