// When a connection to a peer was first found to have ended, and how.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>

#include "base/control.h"

namespace tutti::transport {

class Breakage {
 public:
  // `number`: the system's word for how, or 0 where the other end closed it.
  void note(int number) {
    int unknown = -1;
    number_.compare_exchange_strong(unknown, number, std::memory_order_relaxed);
    Rep none = 0;
    at_.compare_exchange_strong(none, std::chrono::steady_clock::now().time_since_epoch().count(),
                                std::memory_order_release);
  }
  bool noted() const { return at_.load(std::memory_order_relaxed) != 0; }
  bool older_than(std::chrono::nanoseconds age) const {
    const Rep at = at_.load(std::memory_order_acquire);
    if (at == 0) return false;
    return std::chrono::steady_clock::now().time_since_epoch() - std::chrono::steady_clock::duration(at) >= age;
  }

  // Once it was noted. Of a peer that lives on, as far as known, it cannot be said that it has ended.
  Loss loss() const {
    const int number = number_.load(std::memory_order_relaxed);
    return number <= 0 || number == ECONNRESET || number == EPIPE ? Loss::reset : Loss::unreachable;
  }

 private:
  using Rep = std::chrono::steady_clock::rep;
  std::atomic<Rep> at_{0};
  std::atomic<int> number_{-1};
};

}  // namespace tutti::transport
