#include "tools/visits.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

namespace tutti::tools {

std::vector<std::vector<double>> Visits::run(const std::function<double(std::size_t point)>& visit) const {
  const bool tells = ::isatty(STDERR_FILENO) == 1;
  const auto rounds = static_cast<std::size_t>(rounds_) + 1;
  std::vector<std::vector<double>> seen(points_);
  std::vector<std::size_t> order(points_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 chance(seed_);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, chance);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (tells) std::fprintf(stderr, "\r%s: %zu of %zu", what_.c_str(), round * points_ + i + 1, rounds * points_);
      const double measured = visit(order[i]);
      if (round > 0) seen[order[i]].push_back(measured);
    }
  }
  if (tells) std::fputs("\r\033[K", stderr);
  return seen;
}

}  // namespace tutti::tools
