#include "tools/cost_sizes.h"

#include <algorithm>

#include "tools/bench/sizes.h"
#include "tools/verbs.h"

namespace tutti::tools {

std::size_t PricedSize::quickest() const {
  const auto found = std::min_element(rows.begin(), rows.end(), [](const SimulatedRow& a, const SimulatedRow& b) {
    return a.simulated.seconds < b.simulated.seconds;
  });
  return static_cast<std::size_t>(found - rows.begin());
}

std::vector<PricedSize> price_sizes(const SimulationRequest& asked, const SizesToPrice& sizes,
                                    const topology::Topology& topology, const QuickRows& chosen) {
  const auto end = static_cast<double>(bench::parse_bytes(sizes.end, "-e"));
  std::vector<PricedSize> priced;
  for (auto bytes = static_cast<double>(bench::parse_bytes(sizes.begin, "-b")); bytes <= end; bytes *= sizes.factor) {
    PricedSize size{static_cast<std::uint64_t>(bytes), {}};
    if (!priced.empty() && size.bytes == priced.back().bytes) continue;  // a small factor of a few bytes
    for (const schedule::Algorithm* const row : chosen.rows)
      size.rows.push_back(simulate_row(asked, *row, topology, size.bytes));
    priced.push_back(std::move(size));
  }
  if (priced.empty()) refuse("-b must not be above -e");
  return priced;
}

}  // namespace tutti::tools
