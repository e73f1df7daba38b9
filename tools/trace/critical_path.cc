#include "tools/trace/critical_path.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tutti::analysis {
namespace {

// A call's steps, of each rank in the order of their ends.
class StepsOfCall {
 public:
  StepsOfCall(const TracedJob& trace, std::size_t call) : trace_(trace) {
    for (std::size_t i = 0; i < trace.steps.size(); ++i)
      if (trace.steps[i].call == call) by_rank_[trace.steps[i].rank].push_back(i);
    for (auto& [rank, steps] : by_rank_) std::ranges::stable_sort(steps, {}, [&](std::size_t i) { return end_of(i); });
  }

  std::optional<std::size_t> last() const {
    std::optional<std::size_t> last;
    for (const auto& [rank, steps] : by_rank_)
      if (!last || end_of(steps.back()) > end_of(*last)) last = steps.back();
    return last;
  }

  // What the step could not begin before: the message that it took or the step of the rank whose memory it read, or
  // what its own rank did before, whichever was later.
  std::optional<std::size_t> before(std::size_t step) const {
    const double begin = begin_of(step);
    const std::optional<std::size_t> own = own_before(step);
    std::optional<std::size_t> other = trace_.steps[step].sender ? trace_.steps[step].sender : giver_before(step);
    if (other && begin_of(*other) + kHalfTick_us >= begin) other.reset();  // clocks that are apart
    if (other && (!own || std::min(end_of(*other), begin) + kHalfTick_us >= end_of(*own))) return other;
    return own;
  }
  double begin_of(std::size_t step) const { return trace_.steps[step].time.begin_us; }
  double end_of(std::size_t step) const { return trace_.steps[step].time.end_us; }

 private:
  // Between when a step is said to begin and when it sees what it waited for lies a look at all lanes.
  static constexpr double kLook_us = 0.5;

  // Who reads another rank's memory takes no message: it waited for what that rank had done last.
  std::optional<std::size_t> giver_before(std::size_t step) const {
    const ScheduleStep& of = trace_.steps[step];
    const auto found = by_rank_.find(of.from);
    if (of.from == of.rank || found == by_rank_.end()) return std::nullopt;
    const double until = std::min(of.time.begin_us + kLook_us, of.time.end_us);
    const auto at = std::ranges::upper_bound(found->second, until, {}, [&](std::size_t i) { return end_of(i); });
    return at == found->second.begin() ? std::nullopt : std::optional(*std::prev(at));
  }

  std::optional<std::size_t> own_before(std::size_t step) const {
    const ScheduleStep& of = trace_.steps[step];
    const auto found = by_rank_.find(of.rank);
    if (found == by_rank_.end()) return std::nullopt;
    const std::vector<std::size_t>& steps = found->second;
    auto at =
        std::ranges::upper_bound(steps, of.time.begin_us + kHalfTick_us, {}, [&](std::size_t i) { return end_of(i); });
    while (at != steps.begin()) {
      --at;
      // One that takes no time may end where it begins: it does not come before itself.
      if (*at != step && trace_.steps[*at].time.begin_us < of.time.begin_us) return *at;
    }
    return std::nullopt;
  }

  const TracedJob& trace_;
  std::map<int, std::vector<std::size_t>> by_rank_;
};

}  // namespace

std::vector<PathStep> critical_path(const TracedJob& trace, std::size_t call) {
  const StepsOfCall steps(trace, call);
  // Of the part that the call's time is: others may have been taken up later.
  const double all_in = trace.calls[call].longest_part().ready_us;
  std::vector<PathStep> path;
  for (std::optional<std::size_t> at = steps.last(); at;) {
    std::optional<std::size_t> before = steps.before(*at);
    // What had ended when the last rank came is no part of the call's time.
    if (before && (steps.begin_of(*at) <= all_in || steps.end_of(*before) <= all_in)) before.reset();
    const double since = before ? steps.end_of(*before) : all_in;
    const double gap = steps.begin_of(*at) - since;
    path.push_back({*at, gap < kHalfTick_us ? 0 : gap,
                    std::max(0.0, steps.end_of(*at) - std::max(since, steps.begin_of(*at))),
                    before && before == trace.steps[*at].sender});
    at = before;
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace tutti::analysis
