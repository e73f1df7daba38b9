// What a rank shows of its buffers on a device, so that one rank of a host can do a call's work for all of them.
//
// A rank writes the card, then shows it, then states its call, so that whoever sees the statement of a call but no card
// of it knows that the rank will show none. The words behind the places are those of rank 0's card alone, for all
// ranks.
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

  alignas(64) std::atomic<std::uint64_t> arrivals;  // sequence << 16 | how many ranks have shown a card of that call
  std::atomic<std::uint64_t> busy;                  // sequence << 16 | the last rank that had to wait for its stream
  std::atomic<std::uint64_t> launcher;              // sequence << 16 | the rank that shall launch
  std::atomic<std::uint64_t> outcome;               // sequence << 2 | what has become of the launch
  // Of channel 0 alone, for all: how many launches in a row took too long << 16 | the rank that launches as a rule.
  std::atomic<std::uint64_t> usual;
};

// Of a call that the word is not about yet nothing has become. It goes to `launching` or `through_host`, once, and from
// there to `done` or `through_host`.
enum class LaunchState : std::uint64_t { launching = 1, through_host = 2, done = 3 };
inline std::uint64_t outcome_word(std::uint64_t sequence, LaunchState state) {
  return sequence << 2 | static_cast<std::uint64_t>(state);
}

// The first to say what becomes of the call says it; false: somebody has.
inline bool begin_outcome(DeviceCard& first, std::uint64_t sequence, LaunchState state) {
  std::uint64_t seen = first.outcome.load(std::memory_order_acquire);
  do {
    if (seen >> 2 >= sequence) return false;
  } while (!first.outcome.compare_exchange_weak(seen, outcome_word(sequence, state), std::memory_order_acq_rel));
  return true;
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
