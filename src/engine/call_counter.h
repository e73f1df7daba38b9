// What Counters are read from. One thread counts, any may read; calls that are timed may end on any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "tutti/counters.h"

namespace tutti::engine {

class CallCounter {
 public:
  using Clock = std::chrono::steady_clock;

  void count(Verb verb, std::uint64_t bytes) {
    Row& row = rows_[static_cast<std::size_t>(verb)];
    add(row.calls, 1);
    add(row.bytes, bytes);
  }
  void add_wait(Verb verb, std::chrono::nanoseconds time) {
    if (time.count() != 0)
      add(rows_[static_cast<std::size_t>(verb)].waited_ns, static_cast<std::uint64_t>(time.count()));
  }

  // What came since is not to count.
  void put_back(Verb verb, const VerbCounters& before) {
    Row& row = rows_[static_cast<std::size_t>(verb)];
    row.calls.store(before.calls, std::memory_order_relaxed);
    row.bytes.store(before.bytes, std::memory_order_relaxed);
    row.waited_ns.store(static_cast<std::uint64_t>(before.waited.count()), std::memory_order_relaxed);
  }

  bool timed() const { return timed_.load(std::memory_order_relaxed); }
  // Returns what it was.
  bool set_timed(bool timed) { return timed_.exchange(timed, std::memory_order_relaxed); }
  // A call is under way from begin() to end(), of those that began while calls were timed.
  Clock::time_point begin() {
    const std::lock_guard lock(timing_);
    const Clock::time_point now = Clock::now();
    if (open_++ == 0) busy_since_ = now;
    return now;
  }
  void end(Verb verb, Clock::time_point began) {
    const std::lock_guard lock(timing_);
    const Clock::time_point now = Clock::now();
    under_way_[static_cast<std::size_t>(verb)] += now - began;
    if (--open_ == 0) busy_ += now - busy_since_;
  }

  Counters read() const {
    Counters counters;
    for (std::size_t i = 0; i < kVerbs; ++i) {
      counters.verbs[i].calls = rows_[i].calls.load(std::memory_order_relaxed);
      counters.verbs[i].bytes = rows_[i].bytes.load(std::memory_order_relaxed);
      counters.verbs[i].waited = std::chrono::nanoseconds(rows_[i].waited_ns.load(std::memory_order_relaxed));
    }
    if (!timed()) return counters;
    const std::lock_guard lock(timing_);
    for (std::size_t i = 0; i < kVerbs; ++i) counters.verbs[i].under_way = under_way_[i];
    counters.busy = busy_ + (open_ == 0 ? Clock::duration(0) : Clock::now() - busy_since_);
    return counters;
  }

 private:
  struct Row {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, waited_ns{0};
  };

  // No other thread writes: a load and a store take a tenth of an atomic addition.
  static void add(std::atomic<std::uint64_t>& sum, std::uint64_t amount) {
    sum.store(sum.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::array<Row, kVerbs> rows_;
  std::atomic<bool> timed_{false};
  mutable std::mutex timing_;  // guards what follows
  std::array<Clock::duration, kVerbs> under_way_{};
  Clock::duration busy_{};
  Clock::time_point busy_since_;
  int open_ = 0;
};

// The program is held up while this lives, where calls are timed.
class TimedWait {
 public:
  TimedWait(CallCounter& counter, Verb verb) : counter_(counter.timed() ? &counter : nullptr), verb_(verb) {
    if (counter_ != nullptr) began_ = CallCounter::Clock::now();
  }
  ~TimedWait() {
    if (counter_ != nullptr) counter_->add_wait(verb_, CallCounter::Clock::now() - began_);
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  CallCounter* counter_;  // nullptr: they are not
  Verb verb_;
  CallCounter::Clock::time_point began_;
};

// A blocking call is under way while this lives, and the program held up.
class TimedBlockingCall {
 public:
  TimedBlockingCall(CallCounter& counter, Verb verb) : counter_(counter.timed() ? &counter : nullptr), verb_(verb) {
    if (counter_ != nullptr) began_ = counter.begin();
  }
  ~TimedBlockingCall() {
    if (counter_ == nullptr) return;
    counter_->end(verb_, began_);
    counter_->add_wait(verb_, CallCounter::Clock::now() - began_);
  }
  TimedBlockingCall(const TimedBlockingCall&) = delete;
  TimedBlockingCall& operator=(const TimedBlockingCall&) = delete;

 private:
  CallCounter* counter_;
  Verb verb_;
  CallCounter::Clock::time_point began_;
};

}  // namespace tutti::engine
