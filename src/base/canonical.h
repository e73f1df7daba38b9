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
//
// Ranks on several hosts join hosts first: the ranks of each host in this order, then the hosts' results in this order,
// so that a sum crosses between two hosts once.
//
// A prefix (scan) has an order of its own, because the tree above pairs differently for every n, so that prefixes would
// share no partial results: the largest power of two below n goes left, the rest right, and so on in both parts. For
// n = 7:  ((01)(23)) ((45)6). Every left part is a whole block of a power of two, which all longer prefixes use, too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/hosts.h"

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

// The same order seen from its root: how many of n >= 2 items lie below the left child. Joining canonical(those) with
// canonical(the rest) at every node gives the tree of canonical_fold, because the pairs come first: the left half of
// the core takes as many of them as it can, and a core whose members are all pairs is the next power of two.
constexpr std::size_t canonical_split(std::size_t n) {
  const std::size_t core = canonical_core(n);
  return core / 2 + std::min(n - core, core / 2);
}

// The same of an item of every rank, hosts first.
template <class T, class Join>
void hosts_first_fold(std::span<T> items, const Hosts& hosts, Join&& join) {
  if (!hosts.several()) return canonical_fold(items, join);
  std::vector<std::vector<T>> of_hosts(static_cast<std::size_t>(hosts.count()));
  for (std::size_t rank = 0; rank < items.size(); ++rank)
    of_hosts[static_cast<std::size_t>(hosts.of(static_cast<int>(rank)))].push_back(std::move(items[rank]));
  std::vector<T> sums;
  for (std::vector<T>& of_host : of_hosts) {
    canonical_fold(std::span(of_host), join);
    sums.push_back(std::move(of_host.front()));
  }
  canonical_fold(std::span(sums), join);
  items[0] = std::move(sums.front());
}

// Whether the order of the ranks alone already joins hosts first, as it does where hosts hold the same power of two of
// ranks that follow each other.
inline bool joins_hosts_first(const Hosts& hosts, int ranks) {
  if (!hosts.several()) return true;
  const auto members = hosts.members(ranks);
  const std::size_t first = members->front().size();
  const auto as_first = [&](const std::vector<int>& host) { return host.size() == first; };
  if (std::has_single_bit(first) && hosts.in_order() && std::ranges::all_of(*members, as_first)) return true;
  std::map<std::pair<int, int>, int> joins;  // numbers of nodes, by those of their parts
  const auto root = [&](const auto& fold) {
    std::vector<int> nodes(static_cast<std::size_t>(ranks));
    std::iota(nodes.begin(), nodes.end(), 0);
    fold(std::span(nodes), [&](int& left, int right) {
      left = joins.try_emplace({left, right}, ranks + static_cast<int>(joins.size())).first->second;
    });
    return nodes.front();
  };
  return root([](auto nodes, auto join) { canonical_fold(nodes, join); }) ==
         root([&](auto nodes, auto join) { hosts_first_fold(nodes, hosts, join); });
}

// The items of `items` folded in the order of prefixes; join(left, right) gives the result.
template <class T, class Join>
constexpr T prefix_fold(std::span<const T> items, Join&& join) {
  if (items.size() == 1) return items[0];
  const std::size_t left = std::bit_ceil(items.size()) / 2;
  return join(prefix_fold(items.first(left), join), prefix_fold(items.subspan(left), join));
}

}  // namespace tutti
