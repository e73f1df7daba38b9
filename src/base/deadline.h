// A point in time after which waiting is an error.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Longer waits count as this long, so that no sum with a clock can overflow.
  static constexpr std::chrono::hours kForever{24 * 365};

  Deadline() = default;  // never

  template <class Rep, class Period>
  static Deadline after(std::chrono::duration<Rep, Period> duration) {
    // Compared before it is converted: the longest number of milliseconds is no number of nanoseconds.
    const std::chrono::nanoseconds wait = duration >= kForever          ? kForever
                                          : duration <= duration.zero() ? std::chrono::nanoseconds(0)
                                                                        : std::chrono::nanoseconds(duration);
    return Deadline(Clock::now() + wait);
  }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  std::chrono::nanoseconds left() const {
    if (at_ == Clock::time_point::max()) return kForever;
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace tutti
