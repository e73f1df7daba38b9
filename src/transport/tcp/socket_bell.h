// Where the threads of a rank sleep while they wait for sockets.
//
// Sockets are watched edge-triggered: bytes that nobody reads yet wake once and then let everybody sleep.
//
// Where the threads sleep elsewhere, because peers wake them there without a system call, a ring rings there, and so
// does what happens at the sockets once that was asked for.
#pragma once

#include <atomic>
#include <functional>

#include "transport/poll_bell.h"

namespace tutti::transport {

class SocketBell : public PollBell {
 public:
  // `elsewhere`: rings where the threads sleep, if not here; then they must not sleep here. Throws Error(system).
  explicit SocketBell(std::function<void()> elsewhere = {});

  // Until the socket is closed. Throws Error(system).
  void watch(int socket);
  bool is_elsewhere() const { return elsewhere_ != nullptr; }
  // Called between prepare_sleep() and sleep() elsewhere. True: somebody has to call ring() as soon as descriptor() is
  // readable. False: somebody does.
  bool arm() { return !armed_.exchange(true, std::memory_order_seq_cst); }

  // Wakes every sleeper.
  void ring();

 private:
  std::function<void()> elsewhere_;
  std::atomic<bool> armed_{false};  // a ring has been asked for and has not come
};

}  // namespace tutti::transport
