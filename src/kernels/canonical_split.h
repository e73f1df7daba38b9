// The canonical order (base/canonical.h) seen from its root, so that a tree can be evaluated depth first.
//
// Invariant: joining canonical(first left items) with canonical(the rest), left = canonical_split(n), at every node
// gives the tree of canonical_fold. It holds because the pairs come first: the left half of the core takes as many of
// them as it can, and a core whose members are all pairs is the next power of two.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/canonical.h"

namespace tutti::kernels {

// How many of n >= 2 items lie below the left child of the root.
constexpr std::size_t canonical_split(std::size_t n) {
  const std::size_t core = canonical_core(n);
  return core / 2 + std::min(n - core, core / 2);
}

}  // namespace tutti::kernels
