// Values as expressions: what a cell of memory holds, as a tree over the ranks' inputs.
//
// Hash-consed: two values are the same bits for every input and every operator exactly when their numbers are equal.
// Poison is memory nobody wrote; whatever is computed from it is poison, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/canonical.h"

namespace tutti::schedule::verification {

using Value = std::uint32_t;

inline constexpr Value kPoison = 0;

struct JoinNode {
  Value left;
  Value right;
  bool last;  // an average divides here

  bool operator==(const JoinNode&) const = default;
};

class Expressions {
 public:
  explicit Expressions(std::size_t leaves) : leaves_(static_cast<Value>(leaves)) {}

  Value leaf(std::size_t index) const { return static_cast<Value>(index) + 1; }
  bool is_leaf(Value value) const { return value != kPoison && value <= leaves_; }
  std::size_t leaf_index(Value leaf) const { return leaf - 1; }
  const JoinNode& join_of(Value value) const { return joins_[value - leaves_ - 1]; }

  // How often `leaf` is in each value there is, by number: none, once, or 2 for more.
  std::vector<std::uint8_t> counts_of(Value leaf) const {
    std::vector<std::uint8_t> counts(leaves_ + joins_.size() + 1);
    counts[leaf] = 1;
    // Whatever a join is made of was there before it.
    for (std::size_t i = 0; i < joins_.size(); ++i) {
      const int sum = counts[joins_[i].left] + counts[joins_[i].right];
      counts[leaves_ + i + 1] = static_cast<std::uint8_t>(std::min(sum, 2));
    }
    return counts;
  }

  Value join(Value left, Value right, bool last) {
    if (left == kPoison || right == kPoison) return kPoison;
    const auto next = static_cast<Value>(leaves_ + joins_.size() + 1);
    const auto [found, fresh] = numbers_.try_emplace(JoinNode{left, right, last}, next);
    if (fresh) joins_.push_back({left, right, last});
    return found->second;
  }

  // The canonical tree over `items`, which are used up; over those of all ranks, hosts first.
  Value reduce(std::span<Value> items, bool last, const Hosts& hosts = {}) {
    std::size_t left_to_do = items.size() - 1;
    hosts_first_fold(items, hosts,
                     [&](Value& left, Value right) { left = join(left, right, last && --left_to_do == 0); });
    return items[0];
  }

 private:
  struct Hash {
    std::size_t operator()(const JoinNode& join) const {
      const std::uint64_t key = (std::uint64_t{join.left} << 32 | join.right) * 2 + (join.last ? 1 : 0);
      const std::uint64_t mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(mixed ^ (mixed >> 32));
    }
  };

  Value leaves_;
  std::vector<JoinNode> joins_;
  std::unordered_map<JoinNode, Value, Hash> numbers_;
};

}  // namespace tutti::schedule::verification
