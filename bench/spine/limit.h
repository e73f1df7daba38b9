// The least this machine needs for an all_reduce over buffers that are already shared: hand-written, no library.
//
// Each rank reduces its slice out of all inputs and stores it into every output, between two flag barriers. What the
// library reaches is judged against this, measured in the same run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::bench {

inline constexpr int kLimitMaxRanks = 16;

struct alignas(128) LimitFlag {
  std::atomic<std::uint64_t> value;
};

// Lies in shared memory, zeroed; `buffers` of rank r start at base + r * stride: input, then output.
struct LimitShared {
  LimitFlag flags[kLimitMaxRanks];
  LimitFlag in[2], reduced[2], out[2];  // Reach: segments each rank has copied in, reduced and copied out
};

class Limit {
 public:
  Limit(LimitShared* shared, float* const* inputs, float* const* outputs, int ranks, int rank)
      : shared_(shared), inputs_(inputs), outputs_(outputs), ranks_(ranks), rank_(rank) {}

  void barrier();
  void all_reduce(std::size_t count);

 private:
  LimitShared* shared_;
  float* const* inputs_;
  float* const* outputs_;
  int ranks_;
  int rank_;
  std::uint64_t epoch_ = 0;
};

// The least for two ranks with private buffers: half of every segment goes through a shared stage of two segments, the
// owner reduces from the stage and leaves the result there, and the peer copies it out; one loop interleaves all three.
class Reach {
 public:
  static constexpr std::size_t kStageBytes = 1 << 20;  // per rank
  Reach(LimitShared* shared, float* const* stages, int rank) : shared_(shared), stages_(stages), rank_(rank) {}

  void all_reduce(const float* input, float* output, std::size_t count, std::size_t segment_count);

 private:
  LimitShared* shared_;
  float* const* stages_;
  int rank_;
  std::uint64_t base_ = 0;  // segments of earlier calls
};

}  // namespace tutti::bench
