// When calls were under way and when somebody waited for them: what a report tells of a step's time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "tutti/work.h"

namespace tutti::train {

using StepClock = std::chrono::steady_clock;

struct TimeSpan {
  StepClock::time_point begin, end;
};

template <class Call>
TimeSpan span_of(const Call& call) {
  const StepClock::time_point begin = StepClock::now();
  call();
  return {begin, StepClock::now()};
}

// When a call ended, set by whichever thread takes it to its end, which may be a little behind wait(); 0 before.
using NotedEnd = std::shared_ptr<std::atomic<StepClock::rep>>;

inline NotedEnd note_end(Work& work) {
  auto end = std::make_shared<std::atomic<StepClock::rep>>(0);
  work.on_end([end] { end->store(StepClock::now().time_since_epoch().count(), std::memory_order_relaxed); });
  return end;
}
// What has not ended yet is under way until now.
inline StepClock::time_point end_of(const NotedEnd& noted, StepClock::time_point now) {
  const StepClock::rep ended = noted->load(std::memory_order_relaxed);
  return ended == 0 ? now : StepClock::time_point(StepClock::duration(ended));
}

// The gathering of one bucket's values.
struct ValuesGather {
  std::size_t bucket = 0;
  Work work;
  StepClock::time_point start;
  NotedEnd end;
  TimeSpan waited;  // where somebody has
};

}  // namespace tutti::train
