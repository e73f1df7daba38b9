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

  // What the step could not begin before: the message that it took, or what its rank did before, whichever was later.
  std::optional<PathStep> before(std::size_t step) const {
    const double begin = trace_.steps[step].time.begin_us;
    const std::optional<std::size_t> own = own_before(step);
    std::optional<std::size_t> sender = trace_.steps[step].sender;
    // Clocks that are apart.
    if (sender && trace_.steps[*sender].time.begin_us + kHalfTick_us >= begin) sender.reset();
    if (sender && (!own || std::min(end_of(*sender), begin) + kHalfTick_us >= end_of(*own)))
      return PathStep{*sender, std::max(0.0, begin - end_of(*sender)), true};
    if (own) return PathStep{*own, begin - end_of(*own), false};
    return std::nullopt;
  }

 private:
  double end_of(std::size_t step) const { return trace_.steps[step].time.end_us; }

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
  std::vector<PathStep> path;
  std::optional<std::size_t> at = steps.last();
  while (at) {
    const std::optional<PathStep> before = steps.before(*at);
    path.push_back({*at, before ? before->gap_us : 0, before && before->by_message});
    at = before ? std::optional(before->step) : std::nullopt;
  }
  std::ranges::reverse(path);
  if (path.empty()) return path;
  double all_in = 0;
  for (const CallPart& part : trace.calls[call].parts) all_in = std::max(all_in, part.ready_us);
  path.front().gap_us = std::max(0.0, trace.steps[path.front().step].time.begin_us - all_in);
  return path;
}

}  // namespace tutti::analysis
