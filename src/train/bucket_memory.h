// The memory behind a layout of buckets on one rank: values, gradients, and what the optimizer keeps of the own part.
//
// The own part of a bucket is what this rank updates: all of it in stage 0, its shard in others. Values and whole
// gradients are symmetric memory, so that verbs run in it. Stages 2 and 3 have no whole gradients of their own: a
// bucket borrows a buffer while its gradients come in, and gets ordinary memory where all buffers are lent out. Stage 3
// has no whole values either: GatheredUnits has those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "strategy/buckets.h"
#include "tutti/communicator.h"
#include "tutti/train/optimizer.h"
#include "tutti/train/report.h"

namespace tutti::train {

class BucketMemory {
 public:
  BucketMemory() = default;
  // Collective: allocates symmetric memory, zeroed. Values are for calls of `gathering`, which has the same ranks.
  BucketMemory(Communicator& communicator, Communicator& gathering, const strategy::BucketLayout& layout, int stage);

  // Whole values; in stage 3 the own ones.
  std::byte* values(std::size_t bucket) const { return bytes_of(buckets_[bucket].values); }
  // Whole gradients; nullptr where stages 2 and 3 have lent none.
  std::byte* gradients(std::size_t bucket) const { return bytes_of(buckets_[bucket].gradients); }

  // The own part, in elements of the bucket.
  std::size_t own_begin(std::size_t bucket) const { return buckets_[bucket].own_begin; }
  std::size_t own_count(std::size_t bucket) const { return buckets_[bucket].own_count; }
  std::byte* own_values(std::size_t bucket) const { return values(bucket) + (cut_values_ ? 0 : own_offset(bucket)); }
  // What a reduction leaves for this rank, and its optimizer reads.
  std::byte* own_gradients(std::size_t bucket) const {
    const Block& block = buckets_[bucket];
    return block.reduced.begin ? bytes_of(block.reduced) : gradients(bucket) + own_offset(bucket);
  }

  // Stages 2 and 3: whether a buffer in symmetric memory is free; lends memory, as it is; takes it back.
  bool has_free_buffer() const;
  std::byte* lend(std::size_t bucket);
  void take_back(std::size_t bucket);

  // Makes the optimizer's arrays, masters from the values that are there now. `parts` has what is owned, by bucket:
  // states of 8 bits go by them.
  void begin_states(const Optimizer& optimizer, std::span<const std::vector<strategy::ShardPart>> parts);
  // `count` elements from `first` on of the own part, as the optimizer sees them; where states have 8 bits, one of the
  // parts.
  Shard shard(std::size_t bucket, std::size_t first, std::size_t count);
  std::uint64_t state_bytes() const;
  // What was really allocated and is there now: values, gradients, masters, states, and what is in flight.
  StateBytes bytes() const;

  // States of 8 bits as float32, in Shard::states, until they are taken, as they are then, or hidden. Others are there
  // always.
  void show_states();
  void take_states();
  void hide_states();

 private:
  // A part whose states have 8 bits.
  struct CodedPart {
    strategy::ShardPart part;
    std::size_t at = 0;  // in the codes
  };
  struct Memory {
    std::shared_ptr<void> begin;
    std::size_t bytes = 0;
  };
  struct Block {
    DType type = DType::float32;
    std::size_t bytes = 0;
    std::size_t own_begin = 0, own_count = 0;
    Memory values, gradients, reduced;
    std::vector<float> master;
    std::vector<float> states[2];
    std::vector<CodedPart> coded;  // in the order of their offsets
    std::vector<std::byte> codes[2];
  };
  static Memory allocate(Communicator& communicator, std::size_t bytes) {
    return {communicator.allocate_bytes(bytes), bytes};
  }
  static bool is_free(const Memory& buffer);
  static std::byte* bytes_of(const Memory& memory) { return static_cast<std::byte*>(memory.begin.get()); }
  std::size_t own_offset(std::size_t bucket) const {
    return buckets_[bucket].own_begin * size_of(buckets_[bucket].type);
  }

  std::vector<Block> buckets_;
  bool cut_values_ = false;
  std::vector<Memory> buffers_;  // stages 2 and 3; free where nobody else holds one
};

}  // namespace tutti::train
