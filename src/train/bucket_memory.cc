#include "train/bucket_memory.h"

#include <algorithm>
#include <new>

#include "kernels/kernels.h"
#include "strategy/sentence.h"
#include "train/state_codes.h"

namespace tutti::train {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

BucketMemory::BucketMemory(Communicator& communicator, Communicator& gathering, const strategy::BucketLayout& layout,
                           int stage)
    : cut_values_(stage == 3) {
  std::size_t largest = 0;
  for (const strategy::Bucket& bucket : layout.buckets) {
    Block& block = buckets_.emplace_back();
    block.type = bucket.type;
    block.bytes = bucket.bytes();
    block.own_count = stage == 0 ? bucket.elements : bucket.shard(communicator.size());
    block.own_begin = stage == 0 ? 0 : static_cast<std::size_t>(communicator.rank()) * block.own_count;
    const std::size_t own_bytes = block.own_count * size_of(block.type);
    block.values = allocate(gathering, cut_values_ ? own_bytes : block.bytes);
    if (stage < 2) {
      block.gradients = allocate(communicator, block.bytes);
    } else {
      block.reduced = allocate(communicator, own_bytes);
    }
    largest = std::max(largest, block.bytes);
  }
  if (stage < 2) return;
  for (std::size_t i = 0; i < std::min(strategy::kGradientBuffers, layout.buckets.size()); ++i)
    buffers_.push_back(allocate(communicator, largest));
}

bool BucketMemory::is_free(const Memory& buffer) { return buffer.begin.use_count() == 1; }

bool BucketMemory::has_free_buffer() const { return std::ranges::any_of(buffers_, is_free); }

std::byte* BucketMemory::lend(std::size_t bucket) {
  Block& block = buckets_[bucket];
  const auto free = std::ranges::find_if(buffers_, is_free);
  if (free != buffers_.end()) {
    block.gradients = *free;
  } else {
    const auto release = [](void* memory) { ::operator delete(memory, kAlignment); };
    block.gradients = {std::shared_ptr<void>(::operator new(block.bytes, kAlignment), release), block.bytes};
  }
  return bytes_of(block.gradients);
}

void BucketMemory::take_back(std::size_t bucket) {
  if (!buffers_.empty()) buckets_[bucket].gradients = {};
}

void BucketMemory::begin_states(const Optimizer& optimizer, std::span<const std::vector<strategy::ShardPart>> parts) {
  const int arrays = state_arrays(optimizer);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Block& block = buckets_[i];
    if (state_type(optimizer) == StateType::float32) {
      for (int state = 0; state < arrays; ++state) block.states[state].assign(block.own_count, 0.0F);
    } else {
      std::size_t bytes = 0;
      block.coded.clear();
      for (const strategy::ShardPart& part : parts[i]) {
        block.coded.push_back({part, bytes});
        bytes += train::state_bytes(optimizer, part.count);
      }
      for (int state = 0; state < arrays; ++state) block.codes[state].assign(bytes, std::byte{});
    }
    if (block.type == DType::float32) continue;  // values are their own masters
    block.master.resize(block.own_count);
    kernels::find_convert(block.type, DType::float32)(block.master.data(), own_values(i), block.own_count);
  }
}

std::uint64_t BucketMemory::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const Block& block : buckets_)
    for (int state = 0; state < 2; ++state)
      bytes += block.coded.empty() ? block.states[state].size() * sizeof(float) : block.codes[state].size();
  return bytes;
}

StateBytes BucketMemory::bytes() const {
  StateBytes bytes{.optimizer = state_bytes()};
  for (const Memory& buffer : buffers_) bytes.in_flight += buffer.bytes;
  for (const Block& block : buckets_) {
    bytes.values += block.values.bytes;
    bytes.gradients += block.reduced.bytes;
    bytes.master += block.master.size() * sizeof(float);
    const bool borrowed =
        std::ranges::any_of(buffers_, [&](const Memory& buffer) { return buffer.begin == block.gradients.begin; });
    if (!borrowed) bytes.gradients += block.gradients.bytes;
  }
  return bytes;
}

void BucketMemory::show_states() {
  for (Block& block : buckets_) {
    for (int state = 0; state < 2 && !block.coded.empty(); ++state) {
      if (block.codes[state].empty() || !block.states[state].empty()) continue;  // none, or shown already
      block.states[state].assign(block.own_count, 0.0F);
      for (const auto& [part, at] : block.coded)
        decode_state(state, block.codes[state].data() + at, part.count, block.states[state].data() + part.offset);
    }
  }
}

void BucketMemory::take_states() {
  for (Block& block : buckets_)
    for (int state = 0; state < 2; ++state)
      for (const auto& [part, at] : block.coded)
        if (!block.states[state].empty())
          encode_state(state, block.states[state].data() + part.offset, part.count, block.codes[state].data() + at);
  hide_states();
}

void BucketMemory::hide_states() {
  for (Block& block : buckets_)
    for (std::vector<float>& states : block.states)
      if (!block.coded.empty()) states = {};
}

Shard BucketMemory::shard(std::size_t bucket, std::size_t first, std::size_t count) {
  Block& block = buckets_[bucket];
  const std::size_t offset = first * size_of(block.type);
  Shard shard{.count = count, .gradient = own_gradients(bucket) + offset, .gradient_type = block.type};
  if (block.type == DType::float32) {
    shard.master = reinterpret_cast<float*>(own_values(bucket) + offset);
  } else {
    shard.master = block.master.data() + first;
    shard.values = own_values(bucket) + offset;
    shard.values_type = block.type;
  }
  for (int state = 0; state < 2; ++state)
    if (!block.states[state].empty()) shard.states[state] = block.states[state].data() + first;
  const auto coded = std::ranges::lower_bound(block.coded, first, {}, [](const CodedPart& c) { return c.part.offset; });
  if (coded == block.coded.end()) return shard;
  shard.first = coded->part.first;
  for (int state = 0; state < 2; ++state)
    if (!block.codes[state].empty()) shard.codes[state] = block.codes[state].data() + coded->at;
  return shard;
}

}  // namespace tutti::train
