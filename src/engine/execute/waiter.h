// Waiting for peers: spin, yield when ranks outnumber cores, then sleep until somebody rings.
//
// The clock is read only after the spin.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "base/deadline.h"
#include "base/interrupt.h"
#include "base/pause.h"
#include "engine/execute/operation.h"
#include "engine/tracing/wait_record.h"
#include "transport/transport.h"

namespace tutti::engine {

class Waiter {
 public:
  enum class Outcome : std::uint8_t { finished, timed_out, hopeless };

  // In the foreground the program waits for the call. In the background it computes meanwhile, quite likely on this
  // very core: looking again and again would take the time that async calls are to save.
  enum class Place : std::uint8_t { foreground, background };

  explicit Waiter(transport::Transport& transport, Deadline deadline = {}, Place place = Place::foreground)
      : transport_(&transport), deadline_(deadline), place_(place) {}

  // Calls look() (an Advance()) until it has finished, the deadline has passed, or hopeless() (a bool() that may be
  // slow, called between looks that found nothing to do) says that waiting is in vain. `watch` is told of waiting.
  template <class Look, class Hopeless, class Watch = Unwatched>
  Outcome until_finished(Look&& look, Hopeless&& hopeless, Watch&& watch = {}) {
    for (;;) {
      const Advance advance = look();
      if (advance == Advance::finished) {
        watch.over();
        return Outcome::finished;
      }
      if (rounds_ == kUnasked) {
        rounds_ = 0;
        crowded_ = transport_->oversubscribed();
      }
      if (advance == Advance::moved) {
        rounds_ = 0;
        watch.over();
      } else if (rounds_ < spin_rounds()) {
        if (rounds_ == std::min(kShortWait, spin_rounds() - 1)) watch.stuck();
        ++rounds_;
        pause_core();
      } else if (rounds_ < spin_rounds() + yield_rounds()) {
        if (rounds_ == spin_rounds()) {
          begin_to_yield();
          watch.spun();
        } else {
          watch.still();
        }
        ++rounds_;
        ::sched_yield();
        if (yields_until_.passed()) rounds_ = spin_rounds() + yield_rounds();
      } else if (const auto outcome = sleep(look, hopeless, watch)) {
        return *outcome;
      }
    }
  }

  // Since the first spin was over, in the foreground. Looks at the clock only where it was.
  std::chrono::nanoseconds waited() const {
    return since_ == Clock::time_point() ? std::chrono::nanoseconds(0) : Clock::now() - since_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr int kUnasked = -1;           // most calls end at the first look, and need to know nothing
  static constexpr int kSpinRounds = 1000;      // some tens of microseconds
  static constexpr int kShortWait = 4;          // rounds that nobody is told of: to read the clock would take as long
  static constexpr int kCrowdedSpinRounds = 1;  // the peer may need this very core
  static constexpr int kBackgroundSpinRounds = 20;
  static constexpr int kCrowdedYieldRounds = 200;
  // Beside programs that keep the cores busy every yield costs a time slice, and nobody looks for the dead meanwhile.
  // Ranks with a core each yield for all of this: waking one that sleeps takes so long that its peers would fall asleep
  // over it, and then all of them wait for each other's waking, call after call.
  static constexpr std::chrono::milliseconds kLongestYield{2};
  static constexpr std::chrono::milliseconds kLongestSleep{20};  // between looks for a dead peer

  int yield_rounds() const {
    if (place_ == Place::background) return 0;
    return crowded_ ? kCrowdedYieldRounds : std::numeric_limits<int>::max() / 2;
  }
  int spin_rounds() const {
    if (place_ == Place::background) return kBackgroundSpinRounds;
    return crowded_ ? kCrowdedSpinRounds : kSpinRounds;
  }

  void begin_to_yield() {
    yields_until_ = Deadline::after(kLongestYield);
    if (since_ == Clock::time_point()) since_ = Clock::now();
  }

  template <class Look, class Hopeless, class Watch>
  std::optional<Outcome> sleep(Look&& look, Hopeless&& hopeless, Watch&& watch) {
    const std::uint32_t ticket = transport_->prepare_sleep();
    Advance advance = look();
    const bool in_vain = advance == Advance::stuck && hopeless();
    // What peers published before they failed or left counts: only what is still missing now will never come.
    if (in_vain) advance = look();
    if (advance == Advance::finished || advance == Advance::moved) watch.over();
    if (advance == Advance::finished) return Outcome::finished;
    if (advance == Advance::moved) {
      rounds_ = 0;
      return std::nullopt;
    }
    if (in_vain) return Outcome::hopeless;
    if (deadline_.passed()) return Outcome::timed_out;
    throw_if_interrupted();
    watch.still();
    transport_->sleep(ticket, std::min<std::chrono::nanoseconds>(deadline_.left(), kLongestSleep));
    return std::nullopt;
  }

  transport::Transport* transport_;
  Deadline deadline_;
  Place place_;
  bool crowded_ = false;
  int rounds_ = kUnasked;
  Deadline yields_until_;
  Clock::time_point since_;  // when the first spin was over
};

}  // namespace tutti::engine
