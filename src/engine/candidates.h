// The algorithms that are chosen from, in one table: which of them runs where, and up to which size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/types.h"

namespace tutti::engine {

inline constexpr std::uint64_t kAnyBytes = ~std::uint64_t{0};

struct Candidate {
  // memory: ranks reach each other's scratch. messages: they do not. symmetric: all buffers are symmetric memory.
  enum class Where : std::uint8_t { anywhere, memory, messages, symmetric };

  Verb verb;
  std::string_view algorithm;
  Where where;
  // The largest call it is chosen for, by the number of ranks: bytes of the vector, or of all chunks together.
  std::uint64_t (*most_bytes)(std::uint64_t ranks);
  std::string_view why;
  bool uneven = false;  // for the v-variant
};

// Of the rows that fit, the first is chosen.
std::span<const Candidate> candidates();

}  // namespace tutti::engine
