// The doorbells of the ranks that share memory, one each, whatever groups they are in: a rank that sleeps is woken by
// whoever it works with. Lies in that memory, zeroed at first; anybody may touch any of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::transport {

inline constexpr std::size_t kPairBytes = 128;  // lines that different ranks write lie so far apart: cores fetch pairs
inline constexpr int kMaxRanks = 1024;

struct Doorbells {
  struct alignas(kPairBytes) Bell {
    std::atomic<std::uint32_t> rings;  // the futex word
  };

  alignas(kPairBytes) std::atomic<std::uint64_t> sleepers[kMaxRanks / 64];  // bit r: rank r sleeps or is about to
  alignas(kPairBytes) std::atomic<std::uint32_t> without_membarrier;        // ranks that could not register
  Bell bells[kMaxRanks];
};

}  // namespace tutti::transport
