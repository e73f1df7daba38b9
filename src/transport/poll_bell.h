// Where the threads of a rank sleep while they wait for descriptors.
//
// One sleeper polls for all of them; whatever ends its poll ends everybody's sleep. A thread that wants to sleep notes
// `rings` before it looks, and whoever takes an event counts it in `rings` afterwards: so nothing is missed.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/file_descriptor.h"

namespace tutti::transport {

class PollBell {
 public:
  // Throws Error(system).
  PollBell();

  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  // Returns when something has happened since rings() was `ticket`, when the time is over, or for no reason.
  // `settled`, called before a poll: whether nothing has happened that no descriptor will tell of.
  template <class Settled>
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most, const Settled& settled) {
    std::unique_lock lock(mutex_);
    if (rings() != ticket) return;
    if (polling_) {
      rung_.wait_for(lock, at_most, [&] { return rings() != ticket; });
      return;
    }
    polling_ = true;
    lock.unlock();
    if (settled()) poll(at_most);
    lock.lock();
    polling_ = false;
    // Even if nothing has happened: one of the others has to poll now.
    rings_.fetch_add(1, std::memory_order_release);
    lock.unlock();
    rung_.notify_all();
  }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) {
    sleep(ticket, at_most, [] { return true; });
  }

  // Readable when something has happened that no poll has taken yet.
  int descriptor() const { return poll_.get(); }

 protected:
  // Until the descriptor is closed; `events` as epoll has them. Throws Error(system).
  void add(int descriptor, std::uint32_t events);
  // Wakes every sleeper.
  void wake();
  // All that has happened so far, without waiting.
  void take();

 private:
  void poll(std::chrono::nanoseconds at_most);

  FileDescriptor poll_;
  FileDescriptor event_;  // edge-triggered, so it is written and never read
  std::mutex mutex_;      // rings_ changes under it, too
  std::condition_variable rung_;
  std::atomic<std::uint32_t> rings_{0};
  bool polling_ = false;
};

}  // namespace tutti::transport
