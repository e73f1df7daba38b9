// Data and naive results to hold the engine against.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/canonical.h"
#include "kernels/kernels.h"
#include "tutti/types.h"

namespace tutti::testing {

// Floats that punish any change of order: huge and tiny, opposite signs, infinities, NaN with payloads, denormals.
// The bits depend only on (seed, rank, i), never on the count.
inline std::uint32_t hostile_bits(std::uint32_t seed, int rank, std::size_t i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9ull +
                    i * 0x94d049bb133111ebull;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  return static_cast<std::uint32_t>(x);
}

inline void fill_hostile(DType type, void* memory, std::size_t count, std::uint32_t seed, int rank) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = hostile_bits(seed, rank, i);
    // One element in 64 has raw bits (NaN, infinities, denormals); the rest spread over 24 binades with either sign.
    if (type == DType::float32) {
      const std::uint32_t spread = (bits & 0x807fffffu) | ((115u + (bits >> 8) % 24u) << 23);
      const std::uint32_t value = bits % 64 == 0 ? bits : spread;
      std::memcpy(static_cast<std::byte*>(memory) + 4 * i, &value, 4);
    } else {
      const auto raw = static_cast<std::uint16_t>(bits >> 7);
      const auto half =
          static_cast<std::uint16_t>(bits % 64 == 0           ? raw
                                     : type == DType::float16 ? (raw & 0xbfffu)
                                                              : ((raw & 0x807fu) | ((120u + bits % 12u) << 7)));
      std::memcpy(static_cast<std::byte*>(memory) + 2 * i, &half, 2);
    }
  }
}

// The reduction of all ranks' vectors, in canonical order, hosts first, pair by pair.
inline std::vector<std::byte> reduce_naively(DType type, ReduceOp op, std::vector<std::vector<std::byte>> inputs,
                                             std::size_t count, const Hosts& hosts = {}) {
  const auto kernel = kernels::find_reduce(type, op);
  const auto divisor = op == ReduceOp::average ? static_cast<std::uint32_t>(inputs.size()) : 1u;
  std::size_t joins_left = inputs.size() - 1;
  hosts_first_fold(std::span(inputs), hosts, [&](std::vector<std::byte>& left, std::vector<std::byte>& right) {
    --joins_left;
    void* destination = left.data();
    const void* sources[] = {left.data(), right.data()};
    kernel(&destination, 1, sources, 2, count, joins_left == 0 ? divisor : 1);
  });
  return inputs[0];
}

// The reduction of the first ranks' vectors, in the order of prefixes.
inline std::vector<std::byte> prefix_naively(DType type, ReduceOp op, std::span<const std::vector<std::byte>> inputs,
                                             std::size_t count) {
  const auto kernel = kernels::find_reduce(type, op);
  return prefix_fold(inputs, [&](std::vector<std::byte> left, const std::vector<std::byte>& right) {
    void* destination = left.data();
    const void* sources[] = {left.data(), right.data()};
    kernel(&destination, 1, sources, 2, count, 1);
    return left;
  });
}

}  // namespace tutti::testing
