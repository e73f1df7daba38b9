// The programs of all ranks of a call, as the tests of the schedule use them.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/algorithms/lower_row.h"
#include "schedule/algorithms/table.h"
#include "schedule/layout.h"
#include "schedule/lower.h"

namespace tutti::schedule {

inline Offers shared_memory(std::uint32_t credits) {
  Offers offers;
  offers.windows_to_scratch = offers.windows_to_user = offers.operands_in_slots = offers.lends = true;
  offers.credits = credits;
  return offers;
}

inline Offers byte_streams(std::uint32_t credits) {
  Offers offers;
  offers.credits = credits;
  return offers;
}

inline bool has_windows(const Algorithm& algorithm) { return algorithm.user_windows || algorithm.scratch_windows; }
inline bool needs_shared_memory(const Algorithm& algorithm) { return has_windows(algorithm) || algorithm.lent; }

inline std::vector<Lowered> programs_of(const Algorithm& algorithm, int ranks, const Offers& offers, int root = 0) {
  return lower_all(algorithm, ranks, offers, root);
}

// A count that gives `segments` segments of one cache line per block, but for a short last block.
inline std::uint64_t ragged_count(const Program& program, std::uint64_t segments) {
  if (program.verb == Verb::barrier) return 0;
  const bool vector = facts_of(program.verb).cut == Cut::vector;
  return 16 * segments * (vector ? static_cast<std::uint64_t>(program.blocks) : 1) - 3;
}
inline Layout ragged_layout(const Program& program, std::uint64_t segments) {
  const auto blocks = static_cast<std::uint32_t>(program.blocks);
  return Layout::of(program.verb, ragged_count(program, segments), 4, blocks, 64 * blocks);
}

// How many ranks a verb is for: send_recv is between two.
inline int most_ranks(const Algorithm& algorithm, int most) { return algorithm.verb == Verb::send_recv ? 2 : most; }

}  // namespace tutti::schedule
