// Where segments and blocks lie once a call's count is known: the only place that turns block numbers into bytes.
//
// Every segment but the last holds `segment_count` elements; within a segment every block but the last non-empty one
// holds the same number of elements, a whole number of cache lines, and trailing blocks may be empty. Scratch has the
// layout of one segment, so equal blocks of input, output and scratch always have equal sizes.
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
  std::uint64_t count = 0;          // elements of the vector
  std::uint32_t element_bytes = 1;
  std::uint32_t blocks = 1;
  std::uint64_t segment_count = 0;  // elements of every segment but the last
  std::uint64_t segments = 1;       // at least one, so that a call without elements still meets its peers
  std::uint64_t block_count = 0;    // elements of a block in every segment but the last
  std::uint64_t last_block_count = 0;

  // Segments of at most `segment_bytes` bytes, rounded up to whole blocks; 0 means one segment for everything.
  static Layout make(std::uint64_t count, std::uint32_t element_bytes, std::uint32_t blocks, std::uint64_t segment_bytes) {
    Layout layout{count, element_bytes, blocks, count, 1, 0, 0};
    const std::uint64_t line = line_elements(element_bytes);
    if (segment_bytes != 0 && count * element_bytes > segment_bytes) {
      const std::uint64_t block = std::max<std::uint64_t>(1, segment_bytes / (std::uint64_t{blocks} * line * element_bytes)) * line;
      layout.segment_count = std::min(count, block * blocks);
      layout.segments = (count + layout.segment_count - 1) / layout.segment_count;
    }
    layout.block_count = block_elements(layout.segment_count, blocks, line);
    layout.last_block_count = layout.segments == 1 ? layout.block_count : block_elements(layout.size_of_segment(layout.segments - 1), blocks, line);
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
    const std::uint64_t each = segment + 1 < segments ? block_count : last_block_count;
    const std::uint64_t begin = std::min(size, index * each);
    return {begin, std::min(size, (index + run) * each) - begin};
  }

  static constexpr std::uint64_t line_elements(std::uint32_t element_bytes) {
    return std::max<std::uint64_t>(1, kLineBytes / element_bytes);
  }

  bool operator==(const Layout&) const = default;

 private:
  static constexpr std::uint64_t block_elements(std::uint64_t count, std::uint64_t blocks, std::uint64_t line) {
    if (blocks == 1) return count;
    const std::uint64_t even = (count + blocks - 1) / blocks;
    return (even + line - 1) / line * line;
  }
};

}  // namespace tutti::schedule
