// Something that one thread waits for and others tell.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tutti::engine {

class Event {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  // Whether it has rung by then.
  bool wait(std::chrono::nanoseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return rung_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

}  // namespace tutti::engine
