// What a rank says of a call it has made: enough to compare with a peer's and to tell a person, without text.
#pragma once

#include <cstdint>

#include "tutti/types.h"

namespace tutti {

struct Statement {
  std::uint64_t sequence = 0;  // number of the call on its track, plus one; 0 = no call yet
  std::uint64_t kinds = 0;     // verb, type, operator, root and peer, packed by kinds_of
  std::uint64_t count = 0;

  bool operator==(const Statement&) const = default;

  static constexpr int kRankBits = 20;
  static_assert(kVerbs <= 256 && kDTypes <= 256 && kReduceOps <= 256, "each has eight bits in `kinds`");

  // `peer` is -1 for verbs of the whole group.
  static constexpr std::uint64_t kinds_of(Verb verb, DType type, ReduceOp op, int root, int peer) {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kRankBits) - 1;
    return static_cast<std::uint64_t>(verb) | static_cast<std::uint64_t>(type) << 8 |
           static_cast<std::uint64_t>(op) << 16 | (static_cast<std::uint64_t>(root) & kMask) << 24 |
           (static_cast<std::uint64_t>(peer + 1) & kMask) << (24 + kRankBits);
  }
  constexpr Verb verb() const { return static_cast<Verb>(kinds & 0xff); }
  constexpr DType type() const { return static_cast<DType>(kinds >> 8 & 0xff); }
  constexpr ReduceOp op() const { return static_cast<ReduceOp>(kinds >> 16 & 0xff); }
  constexpr int root() const { return static_cast<int>(kinds >> 24 & ((1u << kRankBits) - 1)); }
  constexpr int peer() const { return static_cast<int>(kinds >> (24 + kRankBits) & ((1u << kRankBits) - 1)) - 1; }
};

}  // namespace tutti
