// Wakes the one thread that waits for it, at a time that other threads set, move or take back: none of that wakes
// anybody by itself. Where it is set and taken back before its time, the thread has slept on.
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::runtime {

class Alarm {
 public:
  Alarm() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    if (!timer_.valid()) throw_errno("making the timer of async calls");
  }

  // Instead of what was set before; at once where `time` is 0.
  void set(std::chrono::nanoseconds time) { arm(time.count() > 0 ? time.count() : 1); }
  void take_back() { arm(0); }
  // Until it rings. It rings once for all that was set.
  void wait() {
    std::uint64_t times = 0;
    while (::read(timer_.get(), &times, sizeof times) < 0 && errno == EINTR) continue;
  }

 private:
  void arm(std::int64_t nanoseconds) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const itimerspec when{{}, {nanoseconds / kSecond, nanoseconds % kSecond}};
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  FileDescriptor timer_;
};

}  // namespace tutti::runtime
