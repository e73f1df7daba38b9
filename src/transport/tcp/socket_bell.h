// Where the threads of a rank sleep while they wait for sockets.
//
// One sleeper polls for all of them; whatever ends its poll ends everybody's sleep. Sockets are watched edge-triggered:
// bytes that nobody reads yet wake once and then let everybody sleep. Nothing is missed, because whoever takes an event
// off the poll counts it in `rings` afterwards, and a thread that wants to sleep notes `rings` before it looks.
//
// Where the threads sleep elsewhere, because peers wake them there without a system call, a ring rings there, and so
// does what happens at the sockets once that was asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/file_descriptor.h"

namespace tutti::transport {

class SocketBell {
 public:
  // `elsewhere`: rings where the threads sleep, if not here; then they must not sleep here. Throws Error(system).
  explicit SocketBell(std::function<void()> elsewhere = {});

  // Until the socket is closed. Throws Error(system).
  void watch(int socket);
  // Readable when something has happened that no poll has taken yet.
  int descriptor() const { return poll_.get(); }
  bool is_elsewhere() const { return elsewhere_ != nullptr; }
  // Called between prepare_sleep() and sleep() elsewhere. True: somebody has to call ring() as soon as descriptor() is
  // readable. False: somebody does.
  bool arm() { return !armed_.exchange(true, std::memory_order_seq_cst); }

  // Wakes every sleeper.
  void ring();
  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  // Returns when something has happened since rings() was `ticket`, when the time is over, or for no reason.
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most);

 private:
  void add(int descriptor, std::uint32_t events);
  // All that has happened so far, without waiting.
  void take();
  void poll(std::chrono::nanoseconds at_most);

  FileDescriptor poll_;
  FileDescriptor event_;  // edge-triggered too, so it is written and never read
  std::mutex mutex_;      // rings_ changes under it, too
  std::condition_variable rung_;
  std::atomic<std::uint32_t> rings_{0};
  bool polling_ = false;
  std::function<void()> elsewhere_;
  std::atomic<bool> armed_{false};  // a ring has been asked for and has not come
};

}  // namespace tutti::transport
