// What a rank says of a call it has made: enough to compare with a peer's and to tell a person, without text.
#pragma once

#include <cstdint>

#include "tutti/types.h"

namespace tutti {

struct Statement {
  std::uint64_t sequence = 0;  // number of the call on its track, plus one; 0 = no call yet
  std::uint64_t kinds = 0;     // verb, type, operator, root and peer, packed by kinds_of
  std::uint64_t count = 0;
  std::uint64_t detail = 0;  // what few calls have, packed by detail_of

  bool operator==(const Statement&) const = default;

  static constexpr int kRankBits = 20;
  static constexpr int kAnyRank = (1 << kRankBits) - 1;  // as root: a receive from whoever sends
  static constexpr std::uint8_t kOwn = 0xff;             // as type or operator: the caller's own
  static constexpr std::uint64_t kProgramsMask = ((std::uint64_t{1} << kRankBits) - 1) << (24 + kRankBits);
  static_assert(kVerbs <= 256 && kDTypes < kOwn && kReduceOps < kOwn, "each has eight bits in `kinds`");

  // `peer` is -1 for verbs of the whole group.
  static constexpr std::uint64_t kinds_of(Verb verb, std::uint8_t type, std::uint8_t op, int root, int peer) {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kRankBits) - 1;
    return static_cast<std::uint64_t>(verb) | std::uint64_t{type} << 8 | std::uint64_t{op} << 16 |
           (static_cast<std::uint64_t>(root) & kMask) << 24 |
           (static_cast<std::uint64_t>(peer + 1) & kMask) << (24 + kRankBits);
  }
  // Of an allocation of symmetric memory: a barrier with elements of the caller's own, single bytes, to count.
  static constexpr std::uint64_t kinds_of_allocation() { return kinds_of(Verb::barrier, kOwn, 0, 0, -1); }
  constexpr bool allocates() const { return (kinds & ~kProgramsMask) == kinds_of_allocation(); }
  constexpr Verb verb() const { return static_cast<Verb>(kinds & 0xff); }
  constexpr std::uint8_t type() const { return static_cast<std::uint8_t>(kinds >> 8); }
  constexpr std::uint8_t op() const { return static_cast<std::uint8_t>(kinds >> 16); }
  constexpr int root() const { return static_cast<int>(kinds >> 24 & ((1u << kRankBits) - 1)); }
  // Of a collective, in the place of the peer: which programs it may run, in numbers that only ranks of one build
  // share; 0 where that is not said.
  static constexpr std::uint64_t programs_bits(std::uint64_t programs) { return programs << (24 + kRankBits); }
  constexpr std::uint32_t programs() const {
    return verb() == Verb::send_recv ? 0 : static_cast<std::uint32_t>(kinds >> (24 + kRankBits));
  }
  // Whether both may be of one call.
  constexpr bool agrees_with(const Statement& other) const {
    if (*this == other) return true;
    if (verb() == Verb::send_recv || (programs() != 0 && other.programs() != 0)) return false;
    Statement mine = *this, theirs = other;
    mine.kinds &= ~kProgramsMask;
    theirs.kinds &= ~kProgramsMask;
    return mine == theirs;
  }
  constexpr int peer() const { return static_cast<int>(kinds >> (24 + kRankBits) & ((1u << kRankBits) - 1)) - 1; }

  // `own_bytes`: of an element of the caller's own type, else 0. `mark`: the tag of a message; of a collective, what
  // stands for the counts of all ranks, or for the caller's own operator. `uneven`: the v-variant of a collective; of a
  // message, that it may be shorter than its receiver says.
  static constexpr std::uint64_t detail_of(std::uint32_t own_bytes, bool uneven, std::uint32_t mark) {
    return std::uint64_t{mark} << 32 | std::uint64_t{own_bytes} << 1 | (uneven ? 1 : 0);
  }
  constexpr bool uneven() const { return (detail & 1) != 0 && verb() != Verb::send_recv; }
  constexpr bool up_to() const { return (detail & 1) != 0 && verb() == Verb::send_recv; }
  constexpr std::uint32_t own_bytes() const { return static_cast<std::uint32_t>(detail >> 1) & 0x7fffffff; }
  constexpr std::uint32_t mark() const { return static_cast<std::uint32_t>(detail >> 32); }
};

}  // namespace tutti
