// Where the threads of a rank sleep while they wait for UCX.
//
// One sleeper polls for all of them; whatever ends its poll ends everybody's sleep. Whoever has UCX bring something
// rings, and a thread that wants to sleep notes `rings` before it looks: so nothing is missed, whoever it came to.
//
// Where the threads sleep elsewhere, because peers wake them there without a system call, a ring rings there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/file_descriptor.h"

namespace tutti::transport {

class WorkerBell {
 public:
  // `settle`: called before a poll; whether nothing has happened that `worker`, a descriptor, will not tell of.
  // `elsewhere`: rings where the threads sleep, if not here. Throws Error(system).
  WorkerBell(int worker, std::function<bool()> settle, std::function<void()> elsewhere);

  // Wakes every sleeper.
  void ring();
  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  // Returns when something has happened since rings() was `ticket`, when the time is over, or for no reason.
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most);

 private:
  void poll(std::chrono::nanoseconds at_most);

  FileDescriptor poll_;
  FileDescriptor event_;  // edge-triggered, so it is written and never read
  std::function<bool()> settle_;
  std::function<void()> elsewhere_;
  std::mutex mutex_;  // rings_ changes under it, too
  std::condition_variable rung_;
  std::atomic<std::uint32_t> rings_{0};
  bool polling_ = false;
};

}  // namespace tutti::transport
