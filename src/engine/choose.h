// The choice of algorithm, from facts that every rank shares.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/call.h"

namespace tutti::engine {

struct Choice {
  std::string_view algorithm;  // empty: depends on whether all ranks' buffers are symmetric, which entering will tell
};

// Bytes up to which everyone sends everything to everyone.
std::uint64_t exchange_bytes(int ranks);

// `forced` overrides where the verb has an algorithm of that name. `may_be_symmetric`: symmetric memory exists.
Choice choose(const Call& call, int ranks, std::string_view forced, bool may_be_symmetric);

// Once all ranks have entered.
std::string_view choose_entered(bool all_symmetric);

}  // namespace tutti::engine
