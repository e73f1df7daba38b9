// What more ranks do not make quicker. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/formatted.h"

namespace tutti::tools {

// The share s of T(n) = T(1) (s + (1 - s) / n) that fits best, 1 at most; `ranks` begins with 1.
inline double serial_share(const std::vector<int>& ranks, const std::vector<double>& seconds) {
  double above = 0, below = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double ideal = 1.0 / ranks[i];
    above += (seconds[i] / seconds.front() - ideal) * (1 - ideal);
    below += (1 - ideal) * (1 - ideal);
  }
  return below > 0 ? std::min(1.0, above / below) : 0;
}

// In a sentence. `slower`: with more ranks it took longer, beyond what runs of the same differ by.
inline std::string words_of_serial_share(double share, bool slower) {
  if (slower) return formatted("serial share %.0f %%: more ranks make it slower", 100 * share);
  if (share >= 1) return "serial share 100 %: more ranks do not make it quicker";
  if (share <= 0) return "serial share none that shows";
  return formatted("serial share %.1f %%: no number of ranks makes it more than %.1f times as quick", 100 * share,
                   1 / share);
}

}  // namespace tutti::tools
