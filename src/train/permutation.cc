#include "train/permutation.h"

namespace tutti::train {

Permutation::Permutation(std::uint64_t n, std::uint64_t seed) : n_(n) {
  while (half_bits_ < 32 && n > std::uint64_t{1} << 2 * half_bits_) ++half_bits_;
  for (std::size_t round = 0; round < kRounds; ++round) keys_[round] = mix(seed + round * 0xD1342543DE82EF95);
}

std::uint64_t Permutation::at(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= n_);
  return index;
}

}  // namespace tutti::train
