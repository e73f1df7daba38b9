// Waiting for peers: spin, yield when ranks outnumber cores, then sleep until somebody rings.
//
// The clock is read only after the spin; a wait during which nothing moves ends at the timeout.
#pragma once

#include <sched.h>

#include <chrono>
#include <optional>

#include "base/pause.h"
#include "engine/operation.h"
#include "transport/transport.h"

namespace tutti::engine {

class Waiter {
 public:
  enum class Outcome : std::uint8_t { finished, timed_out, failed };

  Waiter(transport::Transport& transport, std::chrono::nanoseconds timeout)
      : transport_(&transport), timeout_(timeout), crowded_(transport.oversubscribed()) {}

  // Calls look() (an Advance()) until it has finished, the timeout has passed without any movement, or failed() (a
  // bool() that may be slow) says that waiting is in vain.
  template <class Look, class Failed>
  Outcome until_finished(Look&& look, Failed&& failed) {
    for (;;) {
      const Advance advance = look();
      if (advance == Advance::finished) return Outcome::finished;
      if (advance == Advance::moved) {
        rounds_ = 0;
        timing_ = false;
        continue;
      }
      if (rounds_ < spin_rounds()) {
        ++rounds_;
        pause_core();
      } else if (const auto outcome = wait_slowly(look, failed)) {
        return *outcome;
      }
    }
  }

 private:
  static constexpr int kSpinRounds = 1000;       // some tens of microseconds
  static constexpr int kCrowdedSpinRounds = 20;  // the peer may need this very core
  static constexpr int kYieldRounds = 200;
  static constexpr std::chrono::milliseconds kLongestSleep{20};  // between looks for a dead peer

  int spin_rounds() const { return crowded_ ? kCrowdedSpinRounds : kSpinRounds; }

  template <class Look, class Failed>
  std::optional<Outcome> wait_slowly(Look&& look, Failed&& failed) {
    if (++rounds_ < spin_rounds() + kYieldRounds) {
      ::sched_yield();
      return std::nullopt;
    }
    if (!timing_) deadline_ = Deadline::after(timeout_);
    timing_ = true;
    const std::uint32_t ticket = transport_->prepare_sleep();
    const Advance advance = look();
    if (advance != Advance::stuck) {
      transport_->cancel_sleep();
      rounds_ = 0;
      timing_ = false;
      return advance == Advance::finished ? std::optional(Outcome::finished) : std::nullopt;
    }
    if (failed()) {
      transport_->cancel_sleep();
      return Outcome::failed;
    }
    const auto left = deadline_.left();
    transport_->sleep(ticket, std::min<std::chrono::nanoseconds>(left, kLongestSleep));
    return left == std::chrono::nanoseconds(0) ? std::optional(Outcome::timed_out) : std::nullopt;
  }

  transport::Transport* transport_;
  std::chrono::nanoseconds timeout_;
  bool crowded_;
  int rounds_ = 0;
  bool timing_ = false;  // the deadline counts since the last movement
  Deadline deadline_;
};

}  // namespace tutti::engine
