#include "schedule/readers/simulate/history.h"

#include <algorithm>

namespace tutti::schedule {

History::Id History::fired(int rank, std::uint32_t lane, std::uint32_t step, std::uint32_t segment, double now,
                           const Token& because) {
  const Fired record{because, now, rank, lane, step, segment};
  if (fired_.size() < kMostFired) {
    fired_.push_back(record);
  } else {
    fired_[count_ % kMostFired] = record;
  }
  return count_++;
}

void History::active(const Simulated::Activity& activity) {
  if (activities_.size() < kMostActivities && activity.rank < kActiveRanks) activities_.push_back(activity);
}

void History::tell(const Token& end, int rank, Simulated& simulated) const {
  simulated.activities = activities_;
  const auto hop = [](const Token& token) {
    Simulated::Hop result;
    result.computing_s = token.computing;
    result.queueing_s = token.queueing;
    result.sending_s = token.sending;
    result.sharing_s = token.sharing;
    result.latency_s = token.latency;
    return result;
  };
  simulated.path.push_back(hop(end));
  simulated.path.back().rank = rank;
  simulated.path.back().fired_s = end.at;
  const Id oldest = count_ - std::min<Id>(count_, kMostFired);
  Id at = end.from;
  for (; at != kNone && at >= oldest; at = fired_[at % kMostFired].because.from) {
    const Fired& fired = fired_[at % kMostFired];
    Simulated::Hop found = hop(fired.because);
    found.rank = fired.rank;
    found.lane = fired.lane;
    found.step = fired.step;
    found.segment = fired.segment;
    found.fired_s = fired.at;
    simulated.path.push_back(found);
  }
  simulated.whole_path = at == kNone;
  std::reverse(simulated.path.begin(), simulated.path.end());
}

}  // namespace tutti::schedule
