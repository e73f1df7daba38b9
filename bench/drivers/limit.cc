#include "drivers/limit.h"

#include <sched.h>

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

// In place, or into one of the buffers: the two may be the same, element by element.
void reduce_into(const float* a, const float* b, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

void copy(const float* from, float* to, std::size_t count) {
  if (from != to) std::memcpy(to, from, count * sizeof(float));
}

// Pieces that stay in the first-level cache while every further operand is added to them.
constexpr std::size_t kPiece = 2048;

template <class Do>
void piecewise(std::size_t begin, std::size_t end, Do&& piece) {
  for (std::size_t at = begin; at < end; at += kPiece) piece(at, std::min(kPiece, end - at));
}

}  // namespace

void Limit::barrier() {
  constexpr int kSpins = 200;
  ++epoch_;
  shared_->flags[rank_].value.store(epoch_, std::memory_order_release);
  for (int peer = 0; peer < ranks_; ++peer) {
    for (int spins = 0; shared_->flags[peer].value.load(std::memory_order_acquire) < epoch_; ++spins) {
      if (yields_ && spins >= kSpins) {
        ::sched_yield();
      } else {
        pause_core();
      }
    }
  }
}

Limit::Slice Limit::slice(std::size_t count) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::size_t each = ((count + ranks - 1) / ranks + 15) / 16 * 16;
  const std::size_t begin = std::min(count, static_cast<std::size_t>(rank_) * each);
  return {begin, std::min(count, begin + each)};
}

void Limit::all_reduce(const LimitBuffers& at, std::size_t count) {
  barrier();
  const auto [begin, end] = slice(count);
  const bool apart = at.inputs[0] != at.outputs[0];
  if (ranks_ == 2 && apart) {
    reduce_two(at.inputs[0] + begin, at.inputs[1] + begin, at.outputs[0] + begin, at.outputs[1] + begin, end - begin);
  } else {
    alignas(64) float sums[kPiece];
    piecewise(begin, end, [&](std::size_t from, std::size_t size) {
      copy(at.inputs[0] + from, sums, size);
      for (int peer = 1; peer < ranks_; ++peer) reduce_into(sums, at.inputs[peer] + from, sums, size);
      for (int peer = 0; peer < ranks_; ++peer) copy(sums, at.outputs[peer] + from, size);
    });
  }
  barrier();
}

void Limit::reduce(const LimitBuffers& at, std::size_t count, int root) {
  barrier();
  const auto [begin, end] = slice(count);
  alignas(64) float sums[kPiece];
  piecewise(begin, end, [&](std::size_t from, std::size_t size) {
    float* const to = ranks_ == 2 ? at.outputs[root] + from : sums;
    if (ranks_ == 1) copy(at.inputs[0] + from, sums, size);
    if (ranks_ > 1) reduce_into(at.inputs[0] + from, at.inputs[1] + from, to, size);
    for (int peer = 2; peer < ranks_; ++peer) reduce_into(sums, at.inputs[peer] + from, sums, size);
    if (ranks_ != 2) copy(sums, at.outputs[root] + from, size);
  });
  barrier();
}

void Limit::reduce_scatter(const LimitBuffers& at, std::size_t count) {
  barrier();
  const std::size_t own = static_cast<std::size_t>(rank_) * count;
  alignas(64) float sums[kPiece];
  piecewise(0, count, [&](std::size_t from, std::size_t size) {
    copy(at.inputs[0] + own + from, sums, size);
    for (int peer = 1; peer < ranks_; ++peer) reduce_into(sums, at.inputs[peer] + own + from, sums, size);
    copy(sums, at.outputs[rank_] + from, size);
  });
  barrier();
}

void Limit::scan(const LimitBuffers& at, std::size_t count, bool exclusive) {
  barrier();
  const auto [begin, end] = slice(count);
  alignas(64) float sums[kPiece], mine[kPiece];
  piecewise(begin, end, [&](std::size_t from, std::size_t size) {
    copy(at.inputs[0] + from, sums, size);
    if (!exclusive) copy(sums, at.outputs[0] + from, size);
    for (int peer = 1; peer < ranks_; ++peer) {
      const float* next = at.inputs[peer] + from;
      if (exclusive) {
        copy(next, mine, size);  // its output may lie over its input
        copy(sums, at.outputs[peer] + from, size);
        next = mine;
      }
      reduce_into(sums, next, sums, size);
      if (!exclusive) copy(sums, at.outputs[peer] + from, size);
    }
  });
  barrier();
}

void Limit::broadcast(const LimitBuffers& at, std::size_t count, int root) {
  barrier();
  const auto [begin, end] = slice(count);
  for (int peer = 0; peer < ranks_; ++peer) copy(at.inputs[root] + begin, at.outputs[peer] + begin, end - begin);
  barrier();
}

void Limit::scatter(const LimitBuffers& at, std::size_t count, int root) {
  barrier();
  copy(at.inputs[root] + static_cast<std::size_t>(rank_) * count, at.outputs[rank_], count);
  barrier();
}

void Limit::gather(const LimitBuffers& at, std::size_t count, int root) {
  barrier();
  copy(at.inputs[rank_], at.outputs[root] + static_cast<std::size_t>(rank_) * count, count);
  barrier();
}

void Limit::all_gather(const LimitBuffers& at, std::size_t count) {
  barrier();
  const std::size_t own = static_cast<std::size_t>(rank_) * count;
  for (int peer = 0; peer < ranks_; ++peer) copy(at.inputs[rank_], at.outputs[peer] + own, count);
  barrier();
}

void Limit::all_to_all(const LimitBuffers& at, std::size_t count) {
  barrier();
  const std::size_t own = static_cast<std::size_t>(rank_) * count;
  for (int peer = 0; peer < ranks_; ++peer) {
    copy(at.inputs[peer] + own, at.outputs[rank_] + static_cast<std::size_t>(peer) * count, count);
  }
  barrier();
}

void Limit::send_recv(const LimitBuffers& at, std::size_t count) {
  barrier();
  copy(at.inputs[(rank_ + ranks_ - 1) % ranks_], at.outputs[rank_], count);
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
