// Where segments and blocks lie once a call's count is known: the only place that turns block numbers into bytes.
//
// A vector is cut into the fewest segments that the bound allows, of nearly equal size. Block b begins b * block_count
// elements into its segment, in every segment, at a cache line; the last blocks of the last segment may be short or
// empty. Scratch has the layout of one segment. So equal blocks of input, output and scratch have equal sizes, and
// different blocks never share a place in scratch, whatever segments they belong to: the verifier relies on it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::schedule {

inline constexpr std::uint64_t kLineBytes = 64;

struct Range {
  std::uint64_t begin = 0;  // elements from the start of the segment
  std::uint64_t count = 0;  // elements

  bool operator==(const Range&) const = default;
};

struct Layout {
  std::uint64_t count = 0;  // elements of the vector
  std::uint32_t element_bytes = 1;
  std::uint32_t blocks = 1;
  std::uint64_t segment_count = 0;  // elements of every segment but the last
  std::uint64_t segments = 1;       // at least one, so that a call without elements still meets its peers
  std::uint64_t block_count = 0;    // elements of a block

  // Segments of at most `segment_bytes` bytes, though never below one line per block; 0 means one segment.
  static Layout make(std::uint64_t count, std::uint32_t element_bytes, std::uint32_t blocks,
                     std::uint64_t segment_bytes) {
    Layout layout{count, element_bytes, blocks, count, 1, count};
    const bool cut = segment_bytes != 0 && count * element_bytes > segment_bytes;
    if (!cut && blocks == 1) return layout;
    const std::uint64_t line = line_elements(element_bytes);
    std::uint64_t pieces = blocks;
    if (cut) {
      const std::uint64_t lines =
          std::max<std::uint64_t>(1, segment_bytes / (std::uint64_t{blocks} * line * element_bytes));
      pieces *= quotient(count, lines * line * blocks);
    }
    layout.block_count = quotient(quotient(count, pieces), line) * line;
    if (cut) {
      layout.segment_count = std::min(count, layout.block_count * blocks);
      layout.segments = quotient(count, layout.segment_count);
    }
    return layout;
  }

  std::uint64_t begin_of_segment(std::uint64_t segment) const { return segment * segment_count; }
  std::uint64_t size_of_segment(std::uint64_t segment) const {
    return segment + 1 < segments ? segment_count : count - segment * segment_count;
  }
  Range block(std::uint64_t segment, std::uint64_t index) const { return blocks_from(segment, index, 1); }

  // The contiguous run of `run` blocks that starts at block `index`.
  Range blocks_from(std::uint64_t segment, std::uint64_t index, std::uint64_t run) const {
    const std::uint64_t size = size_of_segment(segment);
    const std::uint64_t begin = std::min(size, index * block_count);
    return {begin, std::min(size, (index + run) * block_count) - begin};
  }

  static constexpr std::uint64_t line_elements(std::uint32_t element_bytes) {
    return std::max<std::uint64_t>(1, kLineBytes / element_bytes);
  }

  bool operator==(const Layout&) const = default;

 private:
  static constexpr std::uint64_t quotient(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }  // rounded up
};

}  // namespace tutti::schedule
