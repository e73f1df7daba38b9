// Where the threads of a rank sleep while they wait for UCX: whoever has UCX bring something rings.
//
// Where the threads sleep elsewhere, because peers wake them there without a system call, a ring rings there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "transport/poll_bell.h"

namespace tutti::transport {

class WorkerBell : public PollBell {
 public:
  // `settle`: called before a poll; whether nothing has happened that `worker`, a descriptor, will not tell of.
  // `elsewhere`: rings where the threads sleep, if not here. Throws Error(system).
  WorkerBell(int worker, std::function<bool()> settle, std::function<void()> elsewhere);

  // Wakes every sleeper.
  void ring() { elsewhere_ ? elsewhere_() : wake(); }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) { PollBell::sleep(ticket, at_most, settle_); }

 private:
  std::function<bool()> settle_;
  std::function<void()> elsewhere_;
};

}  // namespace tutti::transport
