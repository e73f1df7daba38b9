#include "spine/limit.h"

#include <algorithm>
#include <cstring>

namespace tutti::bench {
namespace {

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void reduce_two(const float* __restrict a, const float* __restrict b, float* __restrict x, float* __restrict y,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = y[i] = a[i] + b[i];
}

}  // namespace

void Limit::barrier() {
  ++epoch_;
  shared_->flags[rank_].value.store(epoch_, std::memory_order_release);
  for (int peer = 0; peer < ranks_; ++peer) {
    while (shared_->flags[peer].value.load(std::memory_order_acquire) < epoch_) pause_core();
  }
}

void Limit::all_reduce(std::size_t count) {
  barrier();
  const std::size_t each = ((count + ranks_ - 1) / ranks_ + 15) / 16 * 16;
  const std::size_t begin = std::min(count, rank_ * each);
  const std::size_t end = std::min(count, begin + each);
  if (ranks_ == 2) {
    reduce_two(inputs_[0] + begin, inputs_[1] + begin, outputs_[0] + begin, outputs_[1] + begin, end - begin);
  } else {
    for (std::size_t i = begin; i < end; ++i) {
      float sum = inputs_[0][i];
      for (int peer = 1; peer < ranks_; ++peer) sum += inputs_[peer][i];
      for (int peer = 0; peer < ranks_; ++peer) outputs_[peer][i] = sum;
    }
  }
  barrier();
}

void Reach::all_reduce(const float* input, float* output, std::size_t count, std::size_t segment_count) {
  const int peer = 1 - rank_;
  const std::size_t segments = (count + segment_count - 1) / segment_count;
  const std::size_t half = (segment_count / 2 + 15) / 16 * 16;
  std::uint64_t copied = base_, reduced = base_, done = base_;
  const std::uint64_t end = base_ + segments;
  const auto piece = [&](std::uint64_t at, int owner, std::size_t* begin) {
    const std::size_t first = (at - base_) * segment_count;
    const std::size_t size = std::min(segment_count, count - first);
    *begin = first + (owner == 0 ? 0 : std::min(half, size));
    return owner == 0 ? std::min(half, size) : size - std::min(half, size);
  };
  const auto stage = [&](int rank, std::uint64_t at, int part) {
    return stages_[rank] + (at % 2) * segment_count + (part == 0 ? 0 : half);
  };
  const auto seen = [](const LimitFlag& flag) { return flag.value.load(std::memory_order_acquire); };
  const auto show = [](LimitFlag& flag, std::uint64_t value) { flag.value.store(value, std::memory_order_release); };
  std::size_t begin = 0;
  while (done < end || reduced < end) {
    if (copied < end &&
        (copied < 2 || (seen(shared_->reduced[peer]) >= copied - 1 && seen(shared_->out[peer]) >= copied - 1))) {
      const std::size_t size = piece(copied, peer, &begin);
      std::memcpy(stage(rank_, copied, peer), input + begin, size * sizeof(float));
      show(shared_->in[rank_], ++copied);
    }
    if (reduced < copied && seen(shared_->in[peer]) > reduced) {
      const std::size_t size = piece(reduced, rank_, &begin);
      reduce_two(input + begin, stage(peer, reduced, rank_), output + begin, stage(rank_, reduced, rank_), size);
      show(shared_->reduced[rank_], ++reduced);
    }
    if (seen(shared_->reduced[peer]) > done) {
      const std::size_t size = piece(done, peer, &begin);
      std::memcpy(output + begin, stage(peer, done, peer), size * sizeof(float));
      show(shared_->out[rank_], ++done);
    }
  }
  base_ = end;
}

}  // namespace tutti::bench
