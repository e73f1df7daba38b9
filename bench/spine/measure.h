// Timing words shared by the two programs: sizes, repetitions, medians, memory that forked ranks share.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "spine/limit.h"

namespace tutti::bench {

inline constexpr std::size_t kSizes[] = {8, 512, 4096, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
inline constexpr std::size_t kLargest = 16 << 20;

// facts/shared-memory: the limit on the machine that the figures were set on, in microseconds, by kSizes.
inline constexpr double kReferenceLimit[] = {0.22, 0.23, 0.32, 1.0, 6.7, 65, 639};

// The best segment of those tried on the machines seen so far.
inline constexpr std::size_t kReachSegmentBytes = 128 << 10;

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// About 2 ms of work per batch, so that the clock and the barrier around it do not count.
inline int iterations_for(std::size_t bytes) {
  return bytes <= 4096 ? 2000 : bytes <= (32 << 10) ? 500 : bytes <= (256 << 10) ? 100 : bytes <= (2 << 20) ? 10 : 2;
}

// The shared memory of the limit: flags, then one input and one output per rank.
class LimitMemory {
 public:
  explicit LimitMemory(int ranks) {
    const std::size_t bytes = kHead + static_cast<std::size_t>(2 * ranks) * kLargest + 2 * Reach::kStageBytes;
    base_ = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    std::memset(base_, 0, bytes);
    for (int rank = 0; rank < ranks; ++rank) {
      inputs_.push_back(reinterpret_cast<float*>(base_ + kHead + static_cast<std::size_t>(2 * rank) * kLargest));
      outputs_.push_back(reinterpret_cast<float*>(base_ + kHead + static_cast<std::size_t>(2 * rank + 1) * kLargest));
    }
    for (int rank = 0; rank < 2; ++rank) {
      stages_[rank] = reinterpret_cast<float*>(base_ + kHead + static_cast<std::size_t>(2 * ranks) * kLargest +
                                               static_cast<std::size_t>(rank) * Reach::kStageBytes);
    }
  }
  // Two ranks only.
  Reach reach(int rank) const { return {reinterpret_cast<LimitShared*>(base_), stages_, rank}; }
  Limit limit(int rank) const {
    return {reinterpret_cast<LimitShared*>(base_), inputs_.data(), outputs_.data(), static_cast<int>(inputs_.size()),
            rank};
  }

 private:
  static constexpr std::size_t kHead = 64 << 10;
  static_assert(sizeof(LimitShared) <= kHead);

  std::byte* base_;
  std::vector<float*> inputs_, outputs_;
  float* stages_[2];
};

}  // namespace tutti::bench
