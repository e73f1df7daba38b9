// The ring of events in memory, as its writer and its readers have it: a header, tables (tables.h), then twice a power
// of two of slots: those of the thread that owns the ring, and those that all other threads share.
//
// Event n lies in slot n mod capacity, behind a stamp that says which event the slot holds and whether all of it is
// there. The owner writes to its slots without an atomic exchange, which would wait for all that it has stored before,
// for its peers as well. Of the others' slots, one belongs to whoever has put an odd stamp on it, and a thread that
// comes a whole ring later, or too late, leaves it alone and its event out. So a reader, in another process and while
// the ring is written, takes what it read for an event only where the stamp was the same, and that of a whole event,
// before and after.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "trace/clock.h"
#include "trace/event.h"
#include "trace/tables.h"

namespace tutti::trace {

inline constexpr std::uint64_t kRingMagic = 0x474e495249545554;  // "TUTIRING" where the lowest byte is the first
inline constexpr std::uint32_t kRingVersion = 4;
inline constexpr std::uint64_t kMostEvents = std::uint64_t{1} << 24;  // of the owner: 1 GiB, and as many of others
inline constexpr std::uint32_t kMostTableEntries = 1 << 16;
inline constexpr std::int32_t kMostRanks = 1 << 20;  // of a job: readers make room for all of them

// Whose ring it is.
struct RingFacts {
  std::int32_t rank = 0, size = 1;   // of the job
  std::uint64_t job = 0;             // the same in all rings of a job
  std::int32_t host = 0, hosts = 1;  // hosts count in the order of their first ranks
  std::int32_t recorded = 0;         // so many of the job's ranks have a ring; 0: all
  std::int32_t unused = 0;
  std::uint64_t system_ns = 0;       // since 1970, when the ring was made
  std::int64_t clock_offset_ns = 0;  // added to this host's steady clock gives that of the first host
  std::uint64_t clock_error_ns = 0;  // how far that may be off
  std::array<char, 64> host_name = {};
  std::array<char, 16> library = {};  // the version that recorded

  std::int32_t rings() const { return recorded == 0 ? size : recorded; }
  bool operator==(const RingFacts&) const = default;
};

// How much there is room for. The numbers of names and of events are powers of two.
struct RingShape {
  std::uint64_t events = std::uint64_t{1} << 16;  // of the owner, and as many of all others: 8 MiB
  std::uint32_t names = 1024, communicators = 1024, members = 16384;

  bool operator==(const RingShape&) const = default;
};

struct alignas(64) RingHeader {
  std::atomic<std::uint64_t> magic;  // written last
  std::uint32_t version;
  std::uint32_t slot_bytes;
  RingShape shape;
  RingFacts facts;
  ClockPair first;                                            // when the ring was made
  std::atomic<std::uint32_t> ended;                           // 1: nothing is recorded any more
  std::atomic<std::uint32_t> communicators, members;          // so many in their tables
  std::atomic<std::uint32_t> pair_stamp;                      // of `latest`; odd: it is being written
  std::atomic<std::uint64_t> latest_ticks, latest_steady_ns;  // another pair of the clocks, of later
  std::atomic<std::uint64_t> nameless;                        // so often there was no room for a name
  // Events so far, those included that are being written.
  alignas(64) std::atomic<std::uint64_t> written;  // by the owner
  alignas(64) std::atomic<std::uint64_t> written_by_others;
};
static_assert(sizeof(RingHeader) % 64 == 0 && std::atomic<std::uint64_t>::is_always_lock_free);

using EventWords = std::array<std::uint64_t, sizeof(TraceEvent) / sizeof(std::uint64_t)>;

// Places in them, for who keeps an event as words and fills in what changes.
inline constexpr std::size_t kSequenceWord = offsetof(TraceEvent, sequence) / sizeof(std::uint64_t);
inline constexpr std::size_t kBeginWord = offsetof(TraceEvent, begin) / sizeof(std::uint64_t);
inline constexpr std::size_t kEndWord = offsetof(TraceEvent, end) / sizeof(std::uint64_t);
inline constexpr std::size_t kMiddleWord = offsetof(TraceEvent, middle) / sizeof(std::uint64_t);
// `thread` in the first of them.
inline constexpr int kThreadBit = 8 * offsetof(TraceEvent, thread);

static_assert(std::endian::native == std::endian::little);
// As it lies in memory; put together in registers, because what is stored in small pieces and at once loaded as a whole
// makes the processor wait.
inline EventWords words_of(const TraceEvent& event) {
  const std::uint64_t first = static_cast<std::uint64_t>(event.kind) | std::uint64_t{event.what} << 8 |
                              std::uint64_t{event.flags} << 16 | std::uint64_t{event.thread} << kThreadBit |
                              std::uint64_t{event.communicator} << 32 | std::uint64_t{event.name} << 48;
  return {first, event.sequence, event.begin, event.end, event.middle, event.amount, event.other};
}

struct alignas(64) RingSlot {
  // Of event n.
  static constexpr std::uint64_t begun(std::uint64_t event) { return 2 * event + 1; }
  static constexpr std::uint64_t whole(std::uint64_t event) { return 2 * event + 2; }

  std::atomic<std::uint64_t> stamp;  // 0: never used
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<EventWords>> words;
};
static_assert(sizeof(RingSlot) == 64);

// Where the parts of a ring lie.
struct RingPlaces {
  explicit constexpr RingPlaces(const RingShape& shape)
      : names(sizeof(RingHeader)),
        communicators(names + std::uint64_t{shape.names} * sizeof(NameEntry)),
        members(communicators + std::uint64_t{shape.communicators} * sizeof(CommunicatorEntry)),
        slots((members + std::uint64_t{shape.members} * sizeof(std::int32_t) + 63) / 64 * 64),
        others(slots + shape.events * sizeof(RingSlot)),
        end(others + shape.events * sizeof(RingSlot)) {}

  std::uint64_t names, communicators, members, slots, others, end;  // in bytes
};
constexpr std::uint64_t ring_bytes(const RingShape& shape) { return RingPlaces(shape).end; }

// The slots, from the writer's end, over memory of ring_bytes() that somebody else owns. Both ways to record return the
// number of the event.
class Ring {
 public:
  Ring(std::byte* memory, const RingShape& shape)
      : header_(reinterpret_cast<RingHeader*>(memory)),
        slots_(reinterpret_cast<RingSlot*>(memory + RingPlaces(shape).slots)),
        others_(reinterpret_cast<RingSlot*>(memory + RingPlaces(shape).others)),
        mask_(shape.events - 1) {}

  // By its owner alone.
  std::uint64_t record_own(const EventWords& event) {
    const std::uint64_t number = header_->written.load(std::memory_order_relaxed);
    header_->written.store(number + 1, std::memory_order_relaxed);
    RingSlot& slot = slots_[number & mask_];
    __builtin_prefetch(&slots_[(number + 1) & mask_], 1);  // rings outgrow the caches
    slot.stamp.store(RingSlot::begun(number), std::memory_order_relaxed);
    fill(slot, number, event);
    return number;
  }

  // By any other thread.
  std::uint64_t record_shared(const EventWords& event) {
    const std::uint64_t number = header_->written_by_others.fetch_add(1, std::memory_order_relaxed);
    RingSlot& slot = others_[number & mask_];
    __builtin_prefetch(&others_[(number + 1) & mask_], 1);
    std::uint64_t stamp = slot.stamp.load(std::memory_order_relaxed);
    const bool taken = (stamp & 1) != 0 || stamp > RingSlot::begun(number);
    if (!taken && slot.stamp.compare_exchange_strong(stamp, RingSlot::begun(number), std::memory_order_acquire))
      fill(slot, number, event);
    return number;
  }

 private:
  static void fill(RingSlot& slot, std::uint64_t number, const EventWords& words) {
    std::atomic_thread_fence(std::memory_order_release);  // whoever sees a word of this event sees the odd stamp
#pragma GCC unroll 8
    for (std::size_t i = 0; i < words.size(); ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.stamp.store(RingSlot::whole(number), std::memory_order_release);
  }

  RingHeader* header_;
  RingSlot *slots_, *others_;
  std::uint64_t mask_;
};

}  // namespace tutti::trace
