// Ranks in a sentence: "rank 3", "ranks 0, 2-5", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 200 more".
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tutti {

inline std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

// `ranks` in ascending order.
inline std::string rank_names(std::span<const int> ranks) {
  if (ranks.size() == 1) return rank_name(ranks[0]);
  constexpr std::size_t kMostRanges = 8;
  std::string text = "ranks ";
  std::size_t ranges = 0;
  for (std::size_t begin = 0; begin < ranks.size(); ++ranges) {
    if (ranges == kMostRanges) return text + " and " + std::to_string(ranks.size() - begin) + " more";
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (begin != 0) text += ", ";
    text += std::to_string(ranks[begin]);
    if (end - begin > 1) text += "-" + std::to_string(ranks[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace tutti
