// The canonical order of a reduction, in one place.
//
// With q the largest power of two <= n and r = n - q, items 2i and 2i+1 (i < r) join first; the q results then join
// pairwise, nearest first. For n = 6 (q = 4, r = 2):
//
//   0   1   2   3   4   5
//    \ /     \ /    |   |
//    01      23     4   5      the r pairs
//      \    /        \ /
//       0123          45       pairwise, nearest first
//           \        /
//            012345
//
// The operand order is always (lower, higher). Kernels, generators, the verifier and the tests all follow this file.
#pragma once

#include <bit>
#include <cstddef>
#include <span>

namespace tutti {

constexpr std::size_t canonical_core(std::size_t n) { return std::bit_floor(n); }

// Folds the items of `items` in canonical order into items[0]; join(left, right) leaves its result in `left`.
template <class T, class Join>
constexpr void canonical_fold(std::span<T> items, Join&& join) {
  const std::size_t n = items.size();
  if (n < 2) return;
  const std::size_t core = canonical_core(n);
  const std::size_t pairs = n - core;
  for (std::size_t i = 0; i < pairs; ++i) join(items[2 * i], items[2 * i + 1]);
  // Core member v stands at item 2v while v is one of the pairs, and at v + pairs beyond them.
  const auto at = [&](std::size_t v) -> T& { return items[v < pairs ? 2 * v : v + pairs]; };
  for (std::size_t distance = 1; distance < core; distance *= 2) {
    for (std::size_t v = 0; v < core; v += 2 * distance) join(at(v), at(v + distance));
  }
}

}  // namespace tutti
