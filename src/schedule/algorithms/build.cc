#include "schedule/algorithms/build.h"

#include "base/canonical.h"

namespace tutti::schedule {

CoreRole CoreRole::of(int ranks, int rank) {
  const int core = static_cast<int>(canonical_core(static_cast<std::size_t>(ranks)));
  const int pairs = ranks - core;
  if (rank >= 2 * pairs) return {core, pairs, rank - pairs, -1};
  const bool even = rank % 2 == 0;
  return {core, pairs, even ? rank / 2 : -1, even ? rank + 1 : rank - 1};
}

}  // namespace tutti::schedule
