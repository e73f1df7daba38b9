// Where the threads of a rank sleep while they wait for sockets.
//
// One sleeper polls for all of them; whatever ends its poll ends everybody's sleep. Sockets are watched edge-triggered:
// bytes that nobody reads yet wake once and then let everybody sleep. Nothing is missed, because whoever takes an event
// off the poll counts it in `rings` afterwards, and a thread that wants to sleep notes `rings` before it looks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/file_descriptor.h"

namespace tutti::transport {

class SocketBell {
 public:
  // Throws Error(system).
  SocketBell();

  // Until the socket is closed. Throws Error(system).
  void watch(int socket);
  // Readable when something has happened that no poll has taken yet.
  int descriptor() const { return poll_.get(); }
  // Takes all that has happened so far, without waiting.
  void take();

  // Wakes every sleeper.
  void ring();
  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  // Returns when something has happened since rings() was `ticket`, when the time is over, or for no reason.
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most);

 private:
  void add(int descriptor, std::uint32_t events);
  void poll(std::chrono::nanoseconds at_most);

  FileDescriptor poll_;
  FileDescriptor event_;  // edge-triggered too, so it is written and never read
  std::mutex mutex_;      // rings_ changes under it, too
  std::condition_variable rung_;
  std::atomic<std::uint32_t> rings_{0};
  bool polling_ = false;
};

}  // namespace tutti::transport
