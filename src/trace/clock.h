// The clock of events: the processor's own counter, where the system goes by it too, because that is read in half the
// time; else the monotonic clock in nanoseconds. Ticks become nanoseconds when they are read, by pairs of both.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tutti::trace {

inline std::uint64_t steady_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// The same moment on both clocks.
struct ClockPair {
  std::uint64_t ticks = 0, steady_ns = 0;

  bool operator==(const ClockPair&) const = default;
};

class Clock {
 public:
  Clock() : counts_(counter_is_clock()) {}

  std::uint64_t now() const {
#if defined(__x86_64__)
    if (counts_) [[likely]]
      return __rdtsc();
#endif
    return steady_ns();
  }
  ClockPair pair() const;

  // Whether this host's clock is the processor's counter, which then runs evenly and alike on all cores.
  static bool counter_is_clock();

 private:
  bool counts_;
};

// Through two pairs; where they are too close to tell, a tick is a nanosecond.
class TicksToNs {
 public:
  TicksToNs(const ClockPair& from, const ClockPair& to) : from_(from) {
    if (to.ticks > from.ticks && to.steady_ns > from.steady_ns)
      ns_per_tick_ = static_cast<double>(to.steady_ns - from.steady_ns) / static_cast<double>(to.ticks - from.ticks);
  }

  std::int64_t operator()(std::uint64_t ticks) const {
    const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - from_.ticks)) * ns_per_tick_;
    return static_cast<std::int64_t>(from_.steady_ns) + static_cast<std::int64_t>(since);
  }
  std::uint64_t ticks_at(std::uint64_t steady_ns) const {
    const auto since = static_cast<double>(static_cast<std::int64_t>(steady_ns - from_.steady_ns)) / ns_per_tick_;
    return from_.ticks + static_cast<std::uint64_t>(static_cast<std::int64_t>(since));
  }

 private:
  ClockPair from_;
  double ns_per_tick_ = 1;
};

}  // namespace tutti::trace
