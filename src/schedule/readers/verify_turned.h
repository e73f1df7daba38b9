// Values as expressions that can be turned: what verify_expression.h has, but for ranks that are all alike.
//
// A value is a tree over the ranks' inputs and the number of places by which it is turned. Trees are kept as they look
// from the rank of their leftmost leaf, so that two values are the same exactly when tree and turn are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/canonical.h"

namespace tutti::schedule::verification {

struct TurnedValue {
  std::uint32_t tree = 0;  // 0: memory nobody wrote, and what is computed from it
  std::uint32_t turn = 0;

  bool operator==(const TurnedValue&) const = default;
};

struct TurnedJoin {
  std::uint32_t left, right;  // trees
  std::uint32_t turn;         // of the right one against the left one
  bool last;

  bool operator==(const TurnedJoin&) const = default;
};

class TurnedExpressions {
 public:
  // Leaf `key` of rank 0 turned by r is the one of the same place of rank r.
  TurnedExpressions(std::uint32_t ranks, std::uint32_t keys) : ranks_(ranks), keys_(keys) {}

  TurnedValue leaf(std::uint32_t rank, std::uint32_t key) const { return {key + 1, rank}; }
  bool is_leaf(std::uint32_t tree) const { return tree <= keys_; }
  std::uint32_t key_of(std::uint32_t leaf) const { return leaf - 1; }
  const TurnedJoin& join_of(std::uint32_t tree) const { return joins_[tree - keys_ - 1]; }
  TurnedValue turned(TurnedValue value, std::uint32_t by) const {
    return {value.tree, value.tree == 0 ? 0 : (value.turn + by) % ranks_};
  }

  TurnedValue join(TurnedValue left, TurnedValue right, bool last) {
    if (left.tree == 0 || right.tree == 0) return {};
    const TurnedJoin node{left.tree, right.tree, (right.turn + ranks_ - left.turn) % ranks_, last};
    const auto next = static_cast<std::uint32_t>(keys_ + joins_.size() + 1);
    const auto [found, fresh] = numbers_.try_emplace(node, next);
    if (fresh) joins_.push_back(node);
    return {found->second, left.turn};
  }

  // The canonical tree over `items`, which are used up.
  TurnedValue reduce(std::span<TurnedValue> items, bool last) {
    std::size_t left_to_do = items.size() - 1;
    canonical_fold(items,
                   [&](TurnedValue& left, TurnedValue right) { left = join(left, right, last && --left_to_do == 0); });
    return items[0];
  }

 private:
  struct Hash {
    std::size_t operator()(const TurnedJoin& join) const {
      std::uint64_t key = (std::uint64_t{join.left} << 32 | join.right) ^ (std::uint64_t{join.turn} << 17) ^
                          (join.last ? 0x8000000000000000u : 0);
      key = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(key ^ (key >> 32));
    }
  };

  std::uint32_t ranks_, keys_;
  std::vector<TurnedJoin> joins_;
  std::unordered_map<TurnedJoin, std::uint32_t, Hash> numbers_;
};

}  // namespace tutti::schedule::verification
