// Where segments and blocks lie once a call's counts are known: the only place that turns block numbers into bytes.
//
// A vector is cut into the fewest segments that the bound allows, of nearly equal size. Block b begins b * block_count
// elements into its segment, in every segment, at a cache line; the last blocks of the last segment may be short or
// empty. Scratch has the layout of one segment. So equal blocks of input, output and scratch have equal sizes, and
// different blocks never share a place in scratch, whatever segments they belong to: the verifier relies on it.
//
// Chunks are cut each by itself: segment s of block b is elements s * segment_count and following of chunk b, which
// begins where the buffer has it. Scratch has room for one segment of every chunk, block b at b * segment_count. Chunks
// of different counts (the v-verbs) are cut by the bound alone, so that two ranks which know only the count of the
// chunk between them cut it alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schedule/verbs.h"

namespace tutti::schedule {

inline constexpr std::uint64_t kLineBytes = 64;

struct Range {
  std::uint64_t begin = 0;  // elements from the start of the segment, or of the buffer
  std::uint64_t count = 0;  // elements

  bool operator==(const Range&) const = default;
};

// The chunks of one buffer where they differ, by block; both nullptr: all of one count, one behind the other. A block
// that the buffer does not hold has count 0.
struct Chunks {
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* displacements = nullptr;

  bool operator==(const Chunks&) const = default;
};

struct Layout {
  std::uint64_t count = 0;  // elements of the vector, or of a chunk
  std::uint32_t element_bytes = 1;
  std::uint32_t blocks = 1;
  std::uint64_t segment_count = 0;  // elements of every segment but the last: of the vector, or of a chunk
  std::uint64_t segments = 1;       // at least one, so that a call without elements still meets its peers
  std::uint64_t block_count = 0;    // elements of a block
  Cut cut = Cut::vector;
  Chunks input = {}, output = {};
  std::uint64_t stride = 0;  // elements from where a chunk begins to where the next one does, where all have one count

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

  // `blocks` chunks of `count` elements each; the bound counts for a segment of all of them.
  static Layout make_chunks(std::uint64_t count, std::uint32_t element_bytes, std::uint32_t blocks,
                            std::uint64_t segment_bytes) {
    Layout layout{count, element_bytes, blocks, count, 1, count, Cut::chunks};
    layout.stride = count;
    const std::uint64_t most = most_of_chunk(element_bytes, blocks, segment_bytes);
    if (count <= most) return layout;
    const std::uint64_t line = line_elements(element_bytes);
    layout.segment_count = layout.block_count = quotient(quotient(count, quotient(count, most)), line) * line;
    layout.segments = quotient(count, layout.segment_count);
    return layout;
  }

  // Chunks of different counts; a chunk has as many segments as it needs (segments_of).
  static Layout make_uneven(const Chunks& input, const Chunks& output, std::uint32_t element_bytes,
                            std::uint32_t blocks, std::uint64_t segment_bytes) {
    // No larger than the largest chunk this rank knows, so that scratch has a size: that cuts no chunk otherwise.
    std::uint64_t largest = 0;
    for (const Chunks* chunks : {&input, &output}) {
      for (std::uint32_t i = 0; chunks->counts != nullptr && i < blocks; ++i)
        largest = std::max(largest, chunks->counts[i]);
    }
    const std::uint64_t most = std::min(largest, most_of_chunk(element_bytes, blocks, segment_bytes));
    return {0, element_bytes, blocks, most, 1, most, Cut::chunks, input, output, 0};
  }

  static Layout of(Verb verb, std::uint64_t count, std::uint32_t element_bytes, std::uint32_t blocks,
                   std::uint64_t segment_bytes) {
    return facts_of(verb).cut == Cut::vector ? make(count, element_bytes, blocks, segment_bytes)
                                             : make_chunks(count, element_bytes, blocks, segment_bytes);
  }

  bool uneven() const { return input.counts != nullptr || output.counts != nullptr; }
  // Whether blocks that follow each other in number do so in memory.
  bool contiguous() const { return cut == Cut::vector || (segments == 1 && !uneven() && stride == count); }
  // Elements of one plane of scratch.
  std::uint64_t plane_count() const { return cut == Cut::vector ? segment_count : segment_count * blocks; }

  std::uint64_t begin_of_segment(std::uint64_t segment) const { return segment * segment_count; }
  std::uint64_t size_of_segment(std::uint64_t segment) const { return part_of(count, segment); }
  Range block(std::uint64_t segment, std::uint64_t index) const { return blocks_from(segment, index, 1); }

  // A vector: the contiguous run of `run` blocks that starts at block `index`, from the start of the segment.
  Range blocks_from(std::uint64_t segment, std::uint64_t index, std::uint64_t run) const {
    const std::uint64_t size = size_of_segment(segment);
    const std::uint64_t begin = std::min(size, index * block_count);
    return {begin, std::min(size, (index + run) * block_count) - begin};
  }

  // Where a run of blocks lies in `buffer`, from its start (scratch: from the start of the plane); `alone` where the
  // buffer holds only that block. Runs of several blocks need contiguous().
  Range place(Buffer buffer, bool alone, std::uint64_t segment, std::uint64_t index, std::uint64_t run = 1) const {
    const bool user = buffer != Buffer::scratch;
    if (cut == Cut::vector) {
      const Range range = blocks_from(segment, index, run);
      return {range.begin + (user ? begin_of_segment(segment) : 0), range.count};
    }
    const Chunks& chunks = buffer == Buffer::output ? output : input;
    const std::uint64_t whole = chunks.counts != nullptr ? chunks.counts[index] : count;
    const std::uint64_t size = part_of(whole, segment) * run;
    if (!user) return {index * segment_count, size};
    const std::uint64_t chunk_begin = alone                             ? 0
                                      : chunks.displacements != nullptr ? chunks.displacements[index]
                                                                        : index * stride;
    return {chunk_begin + std::min(whole, begin_of_segment(segment)), size};
  }
  // Elements of a block in a segment.
  std::uint64_t size(std::uint64_t segment, std::uint64_t index) const {
    return cut == Cut::vector ? block(segment, index).count : part_of(count, segment);
  }

  // Whether all blocks of a segment are of one size, where chunks are.
  bool blocks_alike(std::uint64_t segment) const {
    return cut == Cut::chunks || size_of_segment(segment) == block_count * blocks;
  }

  // How many segments a chunk of `elements` needs.
  std::uint64_t segments_of(std::uint64_t elements) const {
    return std::max<std::uint64_t>(1, segment_count == 0 ? 1 : quotient(elements, segment_count));
  }

  static constexpr std::uint64_t line_elements(std::uint32_t element_bytes) {
    return std::max<std::uint64_t>(1, kLineBytes / element_bytes);
  }

  bool operator==(const Layout&) const = default;

 private:
  static constexpr std::uint64_t quotient(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

  // What segment `segment` holds of `whole` elements.
  std::uint64_t part_of(std::uint64_t whole, std::uint64_t segment) const {
    const std::uint64_t begin = segment * segment_count;
    return begin >= whole ? 0 : std::min(segment_count, whole - begin);
  }

  // The most elements of a chunk in a segment, in whole lines.
  static std::uint64_t most_of_chunk(std::uint32_t element_bytes, std::uint64_t blocks, std::uint64_t segment_bytes) {
    constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 62;
    if (segment_bytes == 0) return kUnbounded;
    const std::uint64_t line = line_elements(element_bytes);
    return std::max<std::uint64_t>(1, segment_bytes / (blocks * line * element_bytes)) * line;
  }
};

// What every operand of a step covers in a segment.
inline std::uint64_t elements_of(const Step& step, const Program& program, const Layout& layout,
                                 std::uint64_t segment) {
  const Operand* const sized = sized_operand(step);
  std::uint64_t elements = 0;
  if (sized != nullptr && layout.blocks_alike(segment))
    return static_cast<std::uint64_t>(sized->blocks.count) * layout.size(segment, 0);
  for (int i = 0; sized != nullptr && i < sized->blocks.count; ++i)
    elements += layout.size(segment, static_cast<std::uint64_t>(sized->blocks.at(i, program.rank, program.blocks)));
  return elements;
}

}  // namespace tutti::schedule
