// Seeded random edits of correct programs: the mistakes that generators, lowerings and people make.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/lower.h"

namespace tutti::schedule {

// X(kind, meaning)
#define TUTTI_MUTATIONS(X)                                                             \
  X(drop, "a step, an operand or a lane is missing")                                   \
  X(duplicate, "a step or an operand comes twice")                                     \
  X(misdirect, "an operand or a wait names another rank, lane or step")                \
  X(reorder, "two steps or two operands change places")                                \
  X(range, "an operand names other blocks, another buffer, plane or peer")             \
  X(missing_wait, "a wait is missing")                                                 \
  X(added_wait, "a wait too many, which may close a circle")                           \
  X(segments_back, "a wait is for another segment")                                    \
  X(last, "a reduction is marked last, or not, against the truth")                     \
  X(depth, "scratch is of another depth")                                              \
  X(early, "a step writes its result to the output as well, or a step before it does") \
  X(hearing, "a program hears first, or not, against the truth")                       \
  X(overwrite, "what was sent is written again")

enum class Mutation : std::uint8_t {
#define X(kind, meaning) kind,
  TUTTI_MUTATIONS(X)
#undef X
};

inline constexpr std::string_view kMutationNames[] = {
#define X(kind, meaning) #kind,
    TUTTI_MUTATIONS(X)
#undef X
};

// Edits the programs of one rank or, as a wrong generator would, of all ranks alike. Says what it did; nothing where
// the programs have nothing of the kind to edit.
std::optional<std::string> mutate(std::vector<Lowered>& programs, Mutation mutation, std::uint64_t seed);

}  // namespace tutti::schedule
