// What the links and ranks of a collective carry, against the least that any algorithm can do with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "schedule/lower.h"

namespace tutti::tools {

// In shares of n, the bytes of the vector or of all chunks together.
struct Loads {
  std::uint64_t links = 0;  // that carry something
  double least = 0, most = 0, total = 0;
  std::pair<int, int> busiest_link{0, 0};
  int busiest_rank = 0;
  double rank_most = 0;  // what that one sends or receives, whichever is more
};

// Of what the verifier counted.
Loads loads_of(const std::map<std::pair<int, int>, std::uint64_t>& edge_bytes, double whole_bytes);

// Of ranks that all have the text of this one, with blocks of one size.
Loads loads_of_all_alike(const schedule::Program& first);

// "2 (p-1)/p n": what the busiest rank of the verb has to send or receive, whatever the algorithm; empty for nothing.
std::string least_formula(Verb verb);

}  // namespace tutti::tools
