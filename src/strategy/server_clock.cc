#include "strategy/server_clock.h"

#include <algorithm>

namespace tutti::strategy {

std::size_t ServerClock::present() const {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const Place& it) { return it.takes_part; }));
}

std::optional<std::int64_t> ServerClock::slowest() const {
  std::optional<std::int64_t> slowest;
  for (const Place& worker : workers_)
    if (worker.takes_part) slowest = std::min(slowest.value_or(worker.ended), worker.ended);
  return slowest;
}

std::vector<std::size_t> ServerClock::let_go() {
  const std::int64_t at = slowest().value_or(0);
  std::vector<std::size_t> free;
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    if (!workers_[worker].waits || !may_begin(workers_[worker], at)) continue;
    workers_[worker].waits = false;
    free.push_back(worker);
  }
  return free;
}

std::vector<std::size_t> ServerClock::end(std::size_t worker) {
  ++workers_[worker].ended;
  workers_[worker].waits = true;
  return let_go();
}

std::vector<std::size_t> ServerClock::leave(std::size_t worker) {
  workers_[worker].takes_part = workers_[worker].waits = false;
  return let_go();
}

}  // namespace tutti::strategy
