// The shared memory of a group, byte by byte: one header that all ranks agree on, written once.
//
//   ArenaHeader | Bell per rank | Flags per (channel, rank) | edges per (channel, from, to)
//               | scratch per (channel, rank)
//
// Every word has one writer, except those of the header and the bells, which anybody may touch. Lines that different
// ranks write lie 128 bytes apart, because cores fetch lines in pairs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace tutti::transport {

inline constexpr std::size_t kPairBytes = 128;
inline constexpr int kMaxRanks = 1024;

struct ArenaHeader {
  alignas(kPairBytes) std::atomic<std::uint64_t> sleepers[kMaxRanks / 64];  // bit r: rank r sleeps or is about to
  alignas(kPairBytes) std::atomic<std::uint32_t> arrived;                   // ranks that finished their set-up
  std::atomic<std::uint32_t> without_membarrier;                            // ranks that could not register
  std::atomic<std::uint64_t> cores[kMaxRanks / 64];                         // cores any rank may run on
  alignas(kPairBytes) std::atomic<std::uint64_t> abort;  // 0, or (culprit + 2) << 32 | cause << 24 | (rank + 1)
};

struct alignas(kPairBytes) Bell {
  std::atomic<std::uint32_t> rings;     // the futex word
  std::atomic<std::uint32_t> departed;  // the rank has left the group in good order
};

// One message. Up to kInlineBytes of payload share the line of its sequence number: one transfer between caches.
struct alignas(64) SlotHeader {
  static constexpr std::size_t kInlineBytes = 48;

  std::atomic<std::uint64_t> sequence;  // message number + 1, once the payload is there
  std::uint64_t fingerprint;
  std::byte inline_payload[kInlineBytes];
};
static_assert(sizeof(SlotHeader) == 64);

struct alignas(kPairBytes) EdgeHeader {
  std::atomic<std::uint64_t> consumed;  // messages the receiver is done with
};

struct ArenaShape {
  int ranks = 1;
  int channels = 1;
  std::uint32_t credits = 4;
  std::uint64_t slot_bytes = 0;
  std::uint64_t scratch_bytes = 0;

  std::size_t slot_stride() const { return round(sizeof(SlotHeader) + slot_bytes); }
  std::size_t edge_stride() const { return sizeof(EdgeHeader) + credits * slot_stride(); }
  std::size_t bells_at() const { return round(sizeof(ArenaHeader)); }
  std::size_t flags_at() const { return bells_at() + static_cast<std::size_t>(ranks) * sizeof(Bell); }
  std::size_t edges_at() const { return flags_at() + lines() * sizeof(Flags); }
  std::size_t scratch_at() const {
    return page(edges_at() + lines() * static_cast<std::size_t>(ranks) * edge_stride());
  }
  std::size_t bytes() const { return scratch_at() + lines() * page(scratch_bytes); }

  std::size_t flags_of(int channel, int rank) const { return flags_at() + line(channel, rank) * sizeof(Flags); }
  std::size_t edge_of(int channel, int from, int to) const {
    return edges_at() +
           (line(channel, from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)) * edge_stride();
  }
  std::size_t scratch_of(int channel, int rank) const {
    return scratch_at() + line(channel, rank) * page(scratch_bytes);
  }

 private:
  std::size_t line(int channel, int rank) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank);
  }
  std::size_t lines() const { return static_cast<std::size_t>(channels) * static_cast<std::size_t>(ranks); }
  static std::size_t round(std::size_t bytes) { return (bytes + kPairBytes - 1) / kPairBytes * kPairBytes; }
  static std::size_t page(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
};

}  // namespace tutti::transport
