// A lock for what is over in a moment and mostly free: taking it costs one exchange. Where it is not free for long, its
// holder may have lost its core, and whoever waits leaves it theirs.
#pragma once

#include <sched.h>

#include <atomic>

namespace tutti {

class SpinLock {
 public:
  void lock() {
    for (int looks = 0; taken_.exchange(true, std::memory_order_acquire);) {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++looks > kLooks) ::sched_yield();
      }
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kLooks = 1000;
  std::atomic<bool> taken_{false};
};

}  // namespace tutti
