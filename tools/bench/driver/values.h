// The numbers that a check sends around: small whole numbers, exact in every type and in any order of reduction.
//
// The input of a rank repeats after kPeriod elements, so a buffer is filled and compared tile by tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tools/bench/driver/layout.h"

namespace tutti::bench {

inline constexpr std::uint64_t kPeriod = 251;

// Element `index` of rank `rank`'s input.
inline std::int64_t value_of(const Cell& cell, int ranks, int rank, std::uint64_t index) {
  const std::uint64_t at = index % kPeriod;
  const auto r = static_cast<std::uint64_t>(rank), p = static_cast<std::uint64_t>(ranks);
  if (cell.type == DType::boolean) return static_cast<std::int64_t>((at * (r + 3) / 2 + r) % 2);
  if (cell.op == ReduceOp::product) return (at + r) % p == 0 && at % 2 == 0 ? 2 : 1;  // at most one factor of two
  const auto small = static_cast<std::int64_t>((at * 7 + at * r + r * 5) % (size_of(cell.type) <= 2 ? 3 : 101));
  return cell.op == ReduceOp::average ? small * ranks : small;
}

inline std::int64_t folded(const Cell& cell, int ranks, std::uint64_t index, int first, int last) {
  std::int64_t all = value_of(cell, ranks, first, index);
  const bool boolean = cell.type == DType::boolean;
  for (int rank = first + 1; rank <= last; ++rank) {
    const std::int64_t next = value_of(cell, ranks, rank, index);
    switch (cell.op) {
      case ReduceOp::product: all *= next; break;
      case ReduceOp::minimum: all = std::min(all, next); break;
      case ReduceOp::maximum: all = std::max(all, next); break;
      case ReduceOp::band: all &= next; break;
      case ReduceOp::bor: all |= next; break;
      case ReduceOp::bxor: all ^= next; break;
      case ReduceOp::land: all = all != 0 && next != 0 ? 1 : 0; break;
      case ReduceOp::lor: all = all != 0 || next != 0 ? 1 : 0; break;
      case ReduceOp::lxor: all = (all != 0) != (next != 0) ? 1 : 0; break;
      default: all = boolean ? (all | next) : all + next; break;
    }
  }
  // In every prefix of the ranks only the whole group has an average; verbs with prefixes are not asked for one.
  return cell.op == ReduceOp::average && is_reduction(cell.verb) ? all / (last - first + 1) : all;
}

inline void encode(DType type, std::int64_t value, std::byte* to) {
  const auto store = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  const auto bits_of = [](float number) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
  };
  switch (type) {
    case DType::float16: {
      const std::uint32_t bits = bits_of(static_cast<float>(value));  // below 2048: its mantissa fits
      store(static_cast<std::uint16_t>(value == 0 ? 0 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3FF)));
      break;
    }
    case DType::bfloat16: store(static_cast<std::uint16_t>(bits_of(static_cast<float>(value)) >> 16)); break;
    case DType::float32: store(static_cast<float>(value)); break;
    case DType::float64: store(static_cast<double>(value)); break;
    case DType::complex64:
      std::memset(to, 0, size_of(type));
      store(static_cast<float>(value));
      break;
    case DType::complex128:
      std::memset(to, 0, size_of(type));
      store(static_cast<double>(value));
      break;
    default: std::memcpy(to, &value, size_of(type)); break;  // little-endian whole numbers
  }
}

// kPeriod elements, beginning with `phase`.
inline std::vector<std::byte> tile_of(const Cell& cell, int ranks, std::uint64_t phase, int first, int last) {
  const std::size_t element = size_of(cell.type);
  std::vector<std::byte> tile(kPeriod * element);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    encode(cell.type, folded(cell, ranks, phase + i, first, last), tile.data() + i * element);
  }
  return tile;
}

inline void fill_with(const std::vector<std::byte>& tile, std::byte* to, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += tile.size()) {
    std::memcpy(to + at, tile.data(), std::min<std::uint64_t>(tile.size(), bytes - at));
  }
}

inline void fill_input(const Seat& seat, std::byte* input) {
  if (input == nullptr) return;
  fill_with(tile_of(seat.cell, seat.ranks, 0, seat.rank, seat.rank), input,
            seat.input_count() * size_of(seat.cell.type));
}

// Elements of the output that are not what they should be.
inline std::uint64_t wrong_in(const Seat& seat, const std::byte* output) {
  const std::size_t element = size_of(seat.cell.type);
  std::uint64_t wrong = 0;
  for (const Expected& part : expected_of(seat)) {
    const std::vector<std::byte> tile = tile_of(seat.cell, seat.ranks, part.phase, part.first, part.last);
    const std::byte* const begin = output + part.begin * element;
    for (std::uint64_t at = 0; at < part.count; at += kPeriod) {
      const std::uint64_t here = std::min(kPeriod, part.count - at);
      const std::byte* const found = begin + at * element;
      if (std::memcmp(found, tile.data(), here * element) == 0) continue;
      for (std::uint64_t i = 0; i < here; ++i) {
        if (std::memcmp(found + i * element, tile.data() + i * element, element) != 0) ++wrong;
      }
    }
  }
  return wrong;
}

}  // namespace tutti::bench
