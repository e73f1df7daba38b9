// A permutation of 0..n-1 that is computed and not stored: what a seed stands for, the same on every machine.
//
// A Feistel network permutes the numbers of an even count of bits that has room for n (at most 4 n of them); a result
// beyond n is permuted again until one is in range, which keeps it a permutation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::train {

class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed);
  std::uint64_t at(std::uint64_t index) const;  // index < n

 private:
  static constexpr std::size_t kRounds = 8;
  std::uint64_t n_;
  unsigned half_bits_ = 1;
  std::uint64_t keys_[kRounds];
};

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

}  // namespace tutti::train
