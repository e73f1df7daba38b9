// The shared memory of a group, byte by byte: one header that all ranks agree on, written once.
//
//   ArenaHeader | Presence per rank | Flags per (channel, rank) | DeviceCard per (channel, rank)
//               | edges per (channel, from, to) | scratch per (channel, rank)
//
// Every word has one writer, except those of the header and some of the first card, which anybody may touch. Lines that
// different ranks write lie kPairBytes apart.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/device_card.h"
#include "transport/memory/doorbells.h"
#include "transport/memory/reach.h"
#include "transport/transport.h"

namespace tutti::transport {

struct ArenaHeader {
  alignas(kPairBytes) std::atomic<std::uint32_t> arrived;  // ranks that finished their set-up
  std::atomic<std::uint32_t> tried;                        // ranks that tried to read all others
  std::atomic<std::uint32_t> without_reach;                // ... and could not
  std::atomic<std::uint64_t> cores[kMaxRanks / 64];        // cores any rank may run on
  alignas(kPairBytes) std::atomic<std::uint64_t> abort;    // 0, or (culprit + 2) << 32 | cause << 24 | (rank + 1)
};

// A rank in the group.
struct alignas(kPairBytes) Presence {
  std::atomic<std::uint32_t> departed;  // the rank has left the group in good order
  std::atomic<std::uint32_t> gave_up;   // or has failed: its buffers are its caller's again
  MemoryProbe probe;
};

// One message. A small payload lies beside its sequence number, in the same pair of lines.
struct alignas(kPairBytes) MessageHeader {
  static constexpr std::size_t kInlineBytes = kInlineMessageBytes;

  std::atomic<std::uint64_t> sequence;  // message number + 1, once the payload is there
  std::uint64_t fingerprint;
  std::uint64_t payload_end;  // how much of the payload ring is used up to and with this message, since the beginning
  union {
    std::byte inline_payload[kInlineBytes];
    Exposed exposed;  // larger ones, where the plan copies once
  };
};
static_assert(sizeof(MessageHeader) == kPairBytes);

inline constexpr std::uint64_t kHeaders = 64;  // of an edge: small messages on the way

// What the receiver of an edge is done with.
struct alignas(kPairBytes) EdgeCounts {
  std::atomic<std::uint64_t> taken;  // messages
  std::atomic<std::uint64_t> freed;  // bytes of the payload ring
  // Between threads: the receiver is copying out of the sender's own memory, which therefore must stay.
  std::atomic<std::uint32_t> copying;
};

struct ArenaShape {
  int ranks = 1;
  int channels = 1;
  std::uint32_t credits = 4;
  std::uint64_t slot_bytes = 0;
  std::uint64_t scratch_bytes = 0;

  // One more than there are credits: a payload that does not fit at the end of the ring goes to its beginning.
  std::size_t payload_bytes() const { return round((credits + 1) * slot_bytes); }
  std::size_t edge_stride() const { return sizeof(EdgeCounts) + kHeaders * sizeof(MessageHeader) + payload_bytes(); }
  std::size_t presences_at() const { return round(sizeof(ArenaHeader)); }
  std::size_t flags_at() const { return presences_at() + static_cast<std::size_t>(ranks) * sizeof(Presence); }
  std::size_t cards_at() const { return flags_at() + lines() * sizeof(Flags); }
  std::size_t edges_at() const { return cards_at() + lines() * sizeof(DeviceCard); }
  std::size_t scratch_at() const {
    return page(edges_at() + lines() * static_cast<std::size_t>(ranks) * edge_stride());
  }
  std::size_t bytes() const { return scratch_at() + lines() * page(scratch_bytes); }

  std::size_t flags_of(int channel, int rank) const { return flags_at() + line(channel, rank) * sizeof(Flags); }
  std::size_t card_of(int channel, int rank) const { return cards_at() + line(channel, rank) * sizeof(DeviceCard); }
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
