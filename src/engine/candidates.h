// The algorithms that are chosen from, in one table: which of them runs where. Their prices decide (ladder.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/types.h"

namespace tutti::engine {

struct Candidate {
  // memory: ranks reach each other's scratch. messages: they do not. symmetric: all buffers are symmetric memory.
  // lending: messages can be lent.
  enum class Where : std::uint8_t { anywhere, memory, messages, symmetric, lending };

  Verb verb;
  std::string_view algorithm;
  Where where;
  std::string_view good;  // what it is good at
  bool uneven = false;    // for the v-variant, where the first that fits is taken
};

// Rows that do not reduce in canonical order are candidates only where Options::deterministic is false.
std::span<const Candidate> candidates();

// Differs between builds whose tables, of algorithms or of candidates, do: their ranks could run different programs.
std::uint64_t hash_of_tables();

}  // namespace tutti::engine
