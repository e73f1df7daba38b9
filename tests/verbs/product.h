// Every verb on every type with every operator it has, of every size class, in place and out of it: the cases that a
// group of ranks runs one after the other, because starting ranks is what costs.
#pragma once

#include <vector>

#include "check.h"
#include "verbs/model.h"

namespace tutti::testing {

inline constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};
inline constexpr int kGroups = static_cast<int>(std::size(kAllRanks) * std::size(kRankCounts));

// `large` is more than two segments of any program, and more than a slot per chunk.
enum class SizeClass { none, one, odd, large };
inline constexpr SizeClass kSizeClasses[] = {SizeClass::none, SizeClass::one, SizeClass::odd, SizeClass::large};
std::size_t count_of(SizeClass size, Verb verb, DType type, int ranks);

struct Listed {
  Case test;
  SizeClass size;
};
// In a fixed order; roots go round.
std::vector<Listed> product_of(DType type, int ranks);
// The part of it that is run all the time by group number `group`, 0 .. kGroups - 1: over all groups it has every case.
std::vector<Listed> part_of_product(DType type, int ranks, int group);

// Runs what `list` lists for every type.
void run_product(Ranks kind, int ranks, const std::function<std::vector<Listed>(DType)>& list);

}  // namespace tutti::testing
