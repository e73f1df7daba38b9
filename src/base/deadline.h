// A point in time after which waiting is an error.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline() = default;  // never, until assigned

  static Deadline after(std::chrono::nanoseconds duration) { return Deadline(Clock::now() + duration); }

  bool passed() const { return Clock::now() >= at_; }
  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace tutti
