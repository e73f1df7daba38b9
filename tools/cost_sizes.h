// The algorithms of a verb over sizes, simulated on a cluster, and the quickest of each size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/simulation.h"

namespace tutti::tools {

struct SizesToPrice {
  std::string begin = "1K", end = "64M";
  double factor = 4;
};

struct PricedSize {
  std::uint64_t bytes = 0;
  std::vector<SimulatedRow> rows;

  std::size_t quickest() const;
};

// Ends the command, in words, where there are no such sizes.
std::vector<PricedSize> price_sizes(const SimulationRequest& asked, const SizesToPrice& sizes,
                                    const topology::Topology& topology, const QuickRows& chosen);

}  // namespace tutti::tools
