// What more ranks do not make quicker. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::tools {

// The share s of T(n) = T(1) (s + (1 - s) / n) that fits best; `ranks` begins with 1.
inline double serial_share(const std::vector<int>& ranks, const std::vector<double>& seconds) {
  double above = 0, below = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double ideal = 1.0 / ranks[i];
    above += (seconds[i] / seconds.front() - ideal) * (1 - ideal);
    below += (1 - ideal) * (1 - ideal);
  }
  return below > 0 ? above / below : 0;
}

}  // namespace tutti::tools
