// What is written on the command line about sizes and ranks, and the list of sizes that it means. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

// "8", "64K", "1.5M", "2G": K, M and G are powers of 1024, a B behind them changes nothing. Throws Error.
std::uint64_t parse_bytes(const std::string& text, const std::string& option);

// "4", "2,4,8" or "2..8". Throws Error; `option` is named in its words.
std::vector<int> parse_ranks(const std::string& text, const std::string& option);

// Words between commas.
std::vector<std::string> parse_list(const std::string& text);

// "64 B", "4 KB", "1.5 MB".
std::string text_of_bytes(std::uint64_t bytes);

struct Sizes {
  std::uint64_t begin = 8;
  std::uint64_t end = 64 << 20;
  std::uint64_t step = 0;  // bytes; 0 = by factor
  double factor = 2;
};

// Ascending, from begin to end. Throws Error where they would not end.
std::vector<std::uint64_t> sizes_of(const Sizes& sizes);

}  // namespace tutti::bench
