// The numbers that the interpreter computes with, and what a correct call makes of them.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::schedule {

inline std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// An element: `sum` sees contributions that are missing, foreign or twice; `order` sees operand order and association.
struct Word {
  std::uint64_t sum = 0;
  std::uint64_t order = 0;

  bool operator==(const Word&) const = default;
};

inline Word fresh_word(std::uint64_t seed) { return {scramble(2 * seed + 1), scramble(2 * seed + 2)}; }

inline Word join_words(const Word& left, const Word& right) {
  return {left.sum + right.sum, scramble(left.order * 3 + scramble(right.order + 0x9E37u))};
}

// The division of an average, as a mark that does not commute with sums.
inline Word divide_word(const Word& word) {
  return {word.sum * 0xD1342543DE82EF95u + 1, scramble(word.order ^ 0xA5A5u)};
}

// Canonical order, written as the recursion it is: pairs first where there is no power of two, then halves.
inline Word canonical_words(std::vector<Word> words) {
  std::size_t core = 1;
  while (2 * core <= words.size()) core *= 2;
  for (std::size_t i = 0; words.size() > core; ++i) {
    words[i] = join_words(words[i], words[i + 1]);
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  if (words.size() == 1) return words[0];
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(core / 2);
  return join_words(canonical_words({words.begin(), middle}), canonical_words({middle, words.end()}));
}

// The order of prefixes, from the left: whole blocks of a power of two, each twice as large as the next or larger.
inline Word prefix_words(const std::vector<Word>& words) {
  if (words.size() == 1) return words[0];
  std::size_t left = 1;
  while (2 * left < words.size()) left *= 2;
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(left);
  return join_words(prefix_words({words.begin(), middle}), prefix_words({middle, words.end()}));
}

}  // namespace tutti::schedule
