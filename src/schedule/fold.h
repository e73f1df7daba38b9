// Ranks that do the same, said once: programs name ranks and blocks relative to their own, so equal text is equal work.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/lower.h"

namespace tutti::schedule {

// Throws Error(invalid_argument) unless `programs` is one program for each rank 0..n-1, in order, of one collective.
void require_program_set(std::span<const Lowered> programs);

// The ranks in groups of equal lanes and scratch, ordered by their lowest rank.
std::vector<std::vector<int>> fold_ranks(std::span<const Lowered> programs);

// "0-2, 5" for {0, 1, 2, 5}.
std::string text_of_ranks(std::span<const int> ranks);

}  // namespace tutti::schedule
