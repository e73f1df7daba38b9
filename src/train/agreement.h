// Whether all ranks have the same list of things, and in words which rank has another one where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/communicator.h"
#include "tutti/train/report.h"

namespace tutti::train {

// Collective. `hashes` stand for this rank's things, `describe` tells one of them in words. Throws Error(mismatch) on
// all ranks, with rank 0's words and those of the first rank that differs. Adds its calls to `said`.
void require_alike(Communicator& communicator, std::span<const std::uint64_t> hashes,
                   const std::function<std::string(std::size_t)>& describe, std::string_view remedy, Sentence& said);

// Collective. Calls `part`, which talks to nobody; where it throws on any rank, all ranks throw the first such rank's
// error, with its number before its words.
void all_or_none(Communicator& communicator, const std::function<void()>& part);

std::uint64_t hash_of_bytes(std::span<const std::byte> bytes);
std::uint64_t hash_of_text(std::string_view text);

}  // namespace tutti::train
