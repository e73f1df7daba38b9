#include "train/gradient_norm.h"

#include <algorithm>
#include <span>

#include "base/canonical.h"
#include "kernels/kernels.h"
#include "strategy/buckets.h"

namespace tutti::train {

static_assert(strategy::kBlock == kernels::kSquaresBlock);

void sum_squares(const void* gradient, DType type, std::size_t count, double* sums) {
  const auto* bytes = static_cast<const std::byte*>(gradient);
  for (std::size_t first = 0; first < count; first += strategy::kBlock, ++sums) {
    const std::size_t length = std::min(strategy::kBlock, count - first);
    *sums = kernels::sum_of_squares(bytes + first * size_of(type), type, length);
  }
}

double sum_of_blocks(std::vector<double>& sums) {
  if (sums.empty()) return 0;
  canonical_fold(std::span(sums), [](double& left, double right) { left += right; });
  return sums[0];
}

}  // namespace tutti::train
