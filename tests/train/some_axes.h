// Meshes by chance.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "tutti/train/mesh.h"

namespace tutti::testing {

// Axes dp, tp, pp and ep that multiply to `ranks`, in any order.
inline std::vector<train::MeshAxis> some_axes(int ranks, std::mt19937& random) {
  std::vector<train::MeshAxis> axes{{"dp"}, {"tp"}, {"pp"}, {"ep"}};
  for (const int factor : {2, 2, 2, 3, 5, 7}) {
    if (ranks % factor != 0) continue;
    axes[random() % axes.size()].size *= factor;
    ranks /= factor;
  }
  std::shuffle(axes.begin(), axes.end(), random);
  return axes;
}

}  // namespace tutti::testing
