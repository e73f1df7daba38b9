#include "tools/visits.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

namespace tutti::tools {

void Visits::each(const std::function<void(std::size_t point, bool counts)>& visit) const {
  const bool tells = ::isatty(STDERR_FILENO) == 1;
  const auto rounds = static_cast<std::size_t>(rounds_) + 1;
  std::vector<std::size_t> order(points_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 chance(seed_);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, chance);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (tells) std::fprintf(stderr, "\r%s: %zu of %zu", what_.c_str(), round * points_ + i + 1, rounds * points_);
      visit(order[i], round > 0);
    }
  }
  if (tells) std::fputs("\r\033[K", stderr);
}

}  // namespace tutti::tools
