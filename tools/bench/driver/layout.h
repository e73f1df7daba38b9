// What the buffers of a cell are: how long, where in memory when in place, and what they hold once the verb is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/bench/driver/protocol.h"

namespace tutti::bench {

inline constexpr std::size_t kLine = 128;  // buffers begin at multiples of this

inline bool is_reduction(Verb verb) {
  return verb == Verb::all_reduce || verb == Verb::reduce || verb == Verb::reduce_scatter || verb == Verb::scan ||
         verb == Verb::exclusive_scan;
}
// One buffer of the verb holds a chunk for every rank.
inline bool has_chunks(Verb verb) {
  return verb == Verb::scatter || verb == Verb::gather || verb == Verb::all_gather || verb == Verb::reduce_scatter ||
         verb == Verb::all_to_all;
}
inline bool has_root(Verb verb) {
  return verb == Verb::broadcast || verb == Verb::reduce || verb == Verb::scatter || verb == Verb::gather;
}
// Messages have two buffers, and a barrier has none.
inline bool has_in_place(Verb verb) { return verb != Verb::send_recv && verb != Verb::barrier; }

// One rank's place in a cell.
struct Seat {
  Cell cell;
  int rank = 0;
  int ranks = 1;

  bool is_root() const { return rank == cell.root; }
  std::uint64_t all() const { return cell.count * static_cast<std::uint64_t>(ranks); }
  std::uint64_t own_offset() const { return cell.count * static_cast<std::uint64_t>(rank); }

  std::uint64_t input_count() const {
    switch (cell.verb) {
      case Verb::barrier: return 0;
      case Verb::scatter: return is_root() ? all() : 0;
      case Verb::reduce_scatter:
      case Verb::all_to_all: return all();
      default: return cell.count;
    }
  }
  std::uint64_t output_count() const {
    switch (cell.verb) {
      case Verb::barrier: return 0;
      case Verb::reduce: return is_root() ? cell.count : 0;
      case Verb::gather: return is_root() ? all() : 0;
      case Verb::all_gather:
      case Verb::all_to_all: return all();
      default: return cell.count;
    }
  }
};

// One copy of the buffers; nullptr where the rank has none.
struct Buffers {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
};

class Layout {
 public:
  explicit Layout(const Seat& seat) : seat_(seat), element_(size_of(seat.cell.type)) {
    const std::uint64_t input = seat.input_count() * element_, output = seat.output_count() * element_;
    output_at_ = seat.cell.in_place ? 0 : rounded(input);
    stride_ = seat.cell.in_place ? rounded(std::max(input, output)) : output_at_ + rounded(output);
  }

  std::uint64_t bytes() const { return std::max<std::uint64_t>(kLine, stride_ * seat_.cell.copies); }
  // The most that any rank needs.
  static std::uint64_t most_bytes(const Cell& cell, int ranks) {
    std::uint64_t most = 0;
    for (int rank = 0; rank < ranks; ++rank) most = std::max(most, Layout({cell, rank, ranks}).bytes());
    return most;
  }

  Buffers copy(std::byte* memory, std::uint32_t index) const {
    std::byte* const begin = memory + index * stride_;
    Buffers buffers{begin, begin + output_at_};
    if (seat_.cell.in_place && seat_.input_count() != 0 && seat_.output_count() != 0) {
      const std::uint64_t own = seat_.own_offset() * element_;
      if (seat_.output_count() > seat_.input_count()) buffers.input += own;
      if (seat_.input_count() > seat_.output_count()) buffers.output += own;
    }
    if (seat_.input_count() == 0) buffers.input = nullptr;
    if (seat_.output_count() == 0) buffers.output = nullptr;
    return buffers;
  }

 private:
  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

  Seat seat_;
  std::uint64_t element_, output_at_ = 0, stride_ = 0;
};

// A part of an output: element i is the fold over ranks first .. last of element phase + i of their inputs.
struct Expected {
  std::uint64_t begin, count, phase;
  int first, last;
};

inline std::vector<Expected> expected_of(const Seat& seat) {
  const std::uint64_t count = seat.cell.count;
  const int last = seat.ranks - 1, root = seat.cell.root;
  std::vector<Expected> parts;
  const auto chunks = [&](std::uint64_t phase) {
    for (int from = 0; from <= last; ++from) {
      parts.push_back({count * static_cast<std::uint64_t>(from), count, phase, from, from});
    }
  };
  switch (seat.cell.verb) {
    case Verb::all_reduce: return {{0, count, 0, 0, last}};
    case Verb::broadcast: return {{0, count, 0, root, root}};
    case Verb::reduce: return seat.is_root() ? std::vector<Expected>{{0, count, 0, 0, last}} : parts;
    case Verb::scatter: return {{0, count, seat.own_offset(), root, root}};
    case Verb::reduce_scatter: return {{0, count, seat.own_offset(), 0, last}};
    case Verb::scan: return {{0, count, 0, 0, seat.rank}};
    case Verb::exclusive_scan: return seat.rank == 0 ? parts : std::vector<Expected>{{0, count, 0, 0, seat.rank - 1}};
    case Verb::send_recv: {
      const int left = (seat.rank + last) % seat.ranks;
      return {{0, count, 0, left, left}};
    }
    case Verb::gather:
      if (seat.is_root()) chunks(0);
      return parts;
    case Verb::all_gather: chunks(0); return parts;
    case Verb::all_to_all: chunks(seat.own_offset()); return parts;
    case Verb::barrier: return parts;
  }
  return parts;
}

}  // namespace tutti::bench
