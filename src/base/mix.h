// One step of a hash over words: for fingerprints, where equal inputs must give equal words on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

constexpr std::uint64_t mix_letters(std::uint64_t hash, std::string_view letters) {
  for (const char letter : letters) hash = mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

}  // namespace tutti
