// What a rank shows of its buffers on a device, so that one rank of each device can do its share of a call's work for
// all of them.
//
// A rank writes the card, then shows it, then states its call, so that whoever sees the statement of a call but no card
// of it knows that the rank will show none. The words behind `share` are those of rank 0's card alone, for all ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/device_place.h"

namespace tutti::transport {

struct alignas(128) DeviceCard {
  std::atomic<std::uint64_t> shown;        // Statement::sequence of the call that the rest is about
  std::atomic<std::uint64_t> fingerprint;  // of that call
  std::array<std::byte, 16> device;        // the driver's name for it, the same in all processes
  std::uint64_t process;
  DevicePlace input, output;
  std::atomic<std::uint64_t> share;  // of a rank that launches: sequence << 2 | how far it is with its share

  alignas(64) std::atomic<std::uint64_t> arrivals;  // sequence << 16 | how many ranks have shown a card of that call
  std::atomic<std::uint64_t> busy;                  // sequence << 16 | the last rank that had to wait for its stream
  std::atomic<std::uint64_t> launchers;             // a bit for each rank that shall launch, once it is
  std::atomic<std::uint64_t> appointed;             // the sequence of the call that they are of
  std::atomic<std::uint64_t> outcome;               // sequence << 2 | what has become of the launches
  std::atomic<std::uint64_t> done;                  // the sequence of the last call whose launches all ended well
  // Of channel 0 alone, for all: how many launches in a row took too long << 16 | the rank that launches as a rule
  // where all share a device.
  std::atomic<std::uint64_t> usual;
  // Likewise: how many the ranks had their buffers on when that was seen last; 0: no rank has shown a card so far.
  std::atomic<std::uint64_t> devices;
};

// Of a call that the word is not about yet nothing has become. It goes to `launching` or `through_host`, once, and from
// `launching` to `done` or `through_host`, once.
enum class LaunchState : std::uint64_t { launching = 1, through_host = 2, done = 3 };
// How far a rank is with its share: it can launch, or cannot, or could not; or its launch has ended well.
enum class ShareState : std::uint64_t { prepared = 1, failed = 2, done = 3 };
template <class State>
std::uint64_t state_word(std::uint64_t sequence, State state) {
  return sequence << 2 | static_cast<std::uint64_t>(state);
}

// The first to say what becomes of the call says it; false: somebody has.
inline bool begin_outcome(DeviceCard& first, std::uint64_t sequence, LaunchState state) {
  std::uint64_t seen = first.outcome.load(std::memory_order_acquire);
  do {
    if (seen >> 2 >= sequence) return false;
  } while (!first.outcome.compare_exchange_weak(seen, state_word(sequence, state), std::memory_order_acq_rel));
  return true;
}

// The first to find that all launches have ended says so; others may be in the next call by then. Those of a rank that
// leaves later calls may overwrite the outcome before all have seen it, but not `done`: no later one launches by then.
inline bool end_outcome(DeviceCard& first, std::uint64_t sequence, LaunchState state) {
  std::uint64_t before = first.done.load(std::memory_order_relaxed);
  while (state == LaunchState::done && before < sequence &&
         !first.done.compare_exchange_weak(before, sequence, std::memory_order_relaxed)) {
  }
  std::uint64_t launching = state_word(sequence, LaunchState::launching);
  return first.outcome.compare_exchange_strong(launching, state_word(sequence, state), std::memory_order_acq_rel);
}

// What has become of the call, where it is over: `launching`: it is not. A later call's outcome tells no more than that
// it is over.
inline LaunchState outcome_of(const DeviceCard& first, std::uint64_t sequence) {
  const std::uint64_t told = first.outcome.load(std::memory_order_acquire);
  if (told >> 2 < sequence) return LaunchState::launching;
  if (told >> 2 == sequence) return static_cast<LaunchState>(told & 3);
  return first.done.load(std::memory_order_relaxed) == sequence ? LaunchState::done : LaunchState::through_host;
}

// Takes note that one more rank has shown its card; returns how many have. 0 where a rank has come to a later call, and
// so has done this one without a card.
inline int arrive(DeviceCard& first, std::uint64_t sequence) {
  std::uint64_t seen = first.arrivals.load(std::memory_order_relaxed), next = 0;
  do {
    if ((seen >> 16) > sequence) return 0;
    next = (seen >> 16) == sequence ? seen + 1 : sequence << 16 | 1;
  } while (!first.arrivals.compare_exchange_weak(seen, next, std::memory_order_acq_rel));
  return static_cast<int>(next & 0xffff);
}

}  // namespace tutti::transport
