// The ring of events in memory, as its writer and its readers have it: a header, then a power of two of slots.
//
// Event n lies in slot n mod capacity, behind a stamp that says which event the slot holds and whether all of it is
// there. Several threads of a rank may record at once: a slot belongs to whoever has put an odd stamp on it, and a
// thread that comes a whole ring later, or too late, leaves it alone and its event out. So a reader, in another process
// and while the ring is written, takes what it read for an event only where the stamp was the same, and that of a whole
// event, before and after.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "trace/event.h"

namespace tutti::trace {

inline constexpr std::uint64_t kRingMagic = 0x474e495249545554;  // "TUTIRING" where the lowest byte is the first
inline constexpr std::uint32_t kRingVersion = 1;
inline constexpr std::uint64_t kMostEvents = std::uint64_t{1} << 24;  // of a ring: 1 GiB

// Whose ring it is, and what its clock showed when it was made.
struct RingFacts {
  std::int32_t rank = 0, size = 1;  // of the job
  std::uint64_t steady_ns = 0;      // the clock of events: monotonic, the same for all processes of a host
  std::uint64_t system_ns = 0;      // since 1970, at the same moment

  bool operator==(const RingFacts&) const = default;
};

struct alignas(64) RingHeader {
  std::atomic<std::uint64_t> magic;  // written last
  std::uint32_t version;
  std::uint32_t slot_bytes;
  std::uint64_t capacity;  // in events
  RingFacts facts;
  alignas(64) std::atomic<std::uint64_t> written;  // events so far, those included that are being written
};
static_assert(sizeof(RingHeader) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

using EventWords = std::array<std::uint64_t, sizeof(TraceEvent) / sizeof(std::uint64_t)>;

struct alignas(64) RingSlot {
  // Of event n.
  static constexpr std::uint64_t begun(std::uint64_t event) { return 2 * event + 1; }
  static constexpr std::uint64_t whole(std::uint64_t event) { return 2 * event + 2; }

  std::atomic<std::uint64_t> stamp;  // 0: never used
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<EventWords>> words;
};
static_assert(sizeof(RingSlot) == 64);

constexpr std::uint64_t ring_bytes(std::uint64_t capacity) { return sizeof(RingHeader) + capacity * sizeof(RingSlot); }

// The writer's end, over zeroed memory of ring_bytes(capacity) that somebody else owns. Any thread may record.
class Ring {
 public:
  Ring(std::byte* memory, std::uint64_t capacity, const RingFacts& facts)
      : header_(reinterpret_cast<RingHeader*>(memory)),
        slots_(reinterpret_cast<RingSlot*>(memory + sizeof(RingHeader))),
        mask_(capacity - 1) {
    header_->version = kRingVersion;
    header_->slot_bytes = sizeof(RingSlot);
    header_->capacity = capacity;
    header_->facts = facts;
    header_->magic.store(kRingMagic, std::memory_order_release);
  }

  void record(const TraceEvent& event) {
    const std::uint64_t number = header_->written.fetch_add(1, std::memory_order_relaxed);
    RingSlot& slot = slots_[number & mask_];
    std::uint64_t stamp = slot.stamp.load(std::memory_order_relaxed);
    const bool taken = (stamp & 1) != 0 || stamp > RingSlot::begun(number);
    if (taken || !slot.stamp.compare_exchange_strong(stamp, RingSlot::begun(number), std::memory_order_acquire)) return;
    std::atomic_thread_fence(std::memory_order_release);  // whoever sees a word of this event sees the odd stamp
    const auto words = std::bit_cast<EventWords>(event);
    for (std::size_t i = 0; i < words.size(); ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.stamp.store(RingSlot::whole(number), std::memory_order_release);
  }

 private:
  RingHeader* header_;
  RingSlot* slots_;
  std::uint64_t mask_;
};

}  // namespace tutti::trace
