// The least this machine needs for a verb: hand-written, no library, no errors, no deadlines, float32 sums.
//
// Limit works on buffers that are already shared: between two flag barriers each rank reduces or copies its slice from
// where it lies to where it belongs. Reach is the least known for private buffers. What the library reaches is judged
// against these, measured in the same run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::bench {

inline constexpr int kLimitMaxRanks = 64;

struct alignas(128) LimitFlag {
  std::atomic<std::uint64_t> value;
};

// Lies in shared memory, zeroed.
struct LimitShared {
  LimitFlag flags[kLimitMaxRanks];
  LimitFlag in[2], reduced[2], out[2];  // Reach: segments each rank has copied in, reduced and copied out
};

// Every rank's buffers, at the same addresses in all of them.
struct LimitBuffers {
  float* inputs[kLimitMaxRanks];
  float* outputs[kLimitMaxRanks];
};

class Limit {
 public:
  // Where `yields`, ranks outnumber cores, and waiting for one that does not run would be endless.
  Limit(LimitShared* shared, int ranks, int rank, bool yields)
      : shared_(shared), ranks_(ranks), rank_(rank), yields_(yields) {}

  void barrier();
  void all_reduce(const LimitBuffers& at, std::size_t count);
  void reduce(const LimitBuffers& at, std::size_t count, int root);
  void reduce_scatter(const LimitBuffers& at, std::size_t count);
  void scan(const LimitBuffers& at, std::size_t count, bool exclusive);
  void broadcast(const LimitBuffers& at, std::size_t count, int root);
  void scatter(const LimitBuffers& at, std::size_t count, int root);
  void gather(const LimitBuffers& at, std::size_t count, int root);
  void all_gather(const LimitBuffers& at, std::size_t count);
  void all_to_all(const LimitBuffers& at, std::size_t count);
  void send_recv(const LimitBuffers& at, std::size_t count);

 private:
  struct Slice {
    std::size_t begin, end;
  };
  Slice slice(std::size_t count) const;

  LimitShared* shared_;
  int ranks_;
  int rank_;
  bool yields_;
  std::uint64_t epoch_ = 0;
};

// The least for two ranks with private buffers: half of every segment goes through a shared stage of two segments, the
// owner reduces from the stage and leaves the result there, and the peer copies it out; one loop interleaves all three.
class Reach {
 public:
  static constexpr std::size_t kStageBytes = 1 << 20;  // per rank
  // The best segment of those tried on the machines seen so far.
  static constexpr std::size_t kSegmentBytes = 128 << 10;
  Reach(LimitShared* shared, float* const* stages, int rank) : shared_(shared), stages_(stages), rank_(rank) {}

  void all_reduce(const float* input, float* output, std::size_t count, std::size_t segment_count);

 private:
  LimitShared* shared_;
  float* const* stages_;
  int rank_;
  std::uint64_t base_ = 0;  // segments of earlier calls
};

}  // namespace tutti::bench
