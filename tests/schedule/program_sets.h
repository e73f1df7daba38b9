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
  offers.inside = {true, true, true, true, credits, 0};
  offers.channels = 2;
  return offers;
}

inline Offers byte_streams(std::uint32_t credits) {
  Offers offers;
  offers.inside.credits = credits;
  offers.channels = 2;
  return offers;
}

// Shared memory inside hosts and byte streams across, as ranks on hosts have them.
inline Offers mixed(const Hosts& hosts, std::uint32_t credits_inside = 2, std::uint32_t credits_across = 1) {
  Offers offers = shared_memory(credits_inside);
  offers.inside.windows_to_user = false;
  offers.across.credits = credits_across;
  offers.hosts = hosts;
  return offers;
}

// Ways to place so many ranks on two or three hosts: in blocks, even and uneven, dealt in turn, and in no order; and
// two on one host, each of the others on its own.
inline std::vector<Hosts> placements_of(int ranks) {
  std::vector<Hosts> placements;
  const auto add = [&](const auto& host_of) {
    std::vector<int> by_rank;
    for (int rank = 0; rank < ranks; ++rank) by_rank.push_back(host_of(rank));
    const Hosts hosts(by_rank);
    const bool known = std::find(placements.begin(), placements.end(), hosts) != placements.end();
    if (hosts.several() && !known) placements.push_back(hosts);
  };
  add([&](int rank) { return 2 * rank / ranks; });
  add([&](int rank) { return 3 * rank / ranks; });
  add([](int rank) { return rank % 2; });
  add([](int rank) { return rank % 3; });
  add([](int rank) { return rank == 0 ? 0 : 1; });
  add([&](int rank) { return rank == ranks - 1 ? 1 : 0; });
  add([](int rank) { return rank == 0 ? 0 : rank - 1; });
  add([](int rank) { return "011020122"[rank % 9] - '0'; });
  return placements;
}

inline bool has_windows(const Algorithm& algorithm) { return algorithm.user_windows || algorithm.scratch_windows; }
inline bool needs_shared_memory(const Algorithm& algorithm) { return has_windows(algorithm) || algorithm.single_copy; }

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
