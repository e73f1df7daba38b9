#include "tools/trace/shares.h"

#include <map>
#include <set>

namespace tutti::analysis {
namespace {

Shares mean_of(const std::vector<RankShares>& ranks) {
  Shares mean;
  const auto count = static_cast<double>(ranks.size());
  for (const RankShares& of : ranks) {
    mean.span_us += of.shares.span_us / count;
    mean.compute_us += of.shares.compute_us / count;
    mean.communication_us += of.shares.communication_us / count;
    mean.exposed_us += of.shares.exposed_us / count;
    mean.waiting_us += of.shares.waiting_us / count;
  }
  return mean;
}

}  // namespace

Shares shares_of(const RankTimeline& rank, const Interval& window) {
  const Intervals compute = within(rank.compute, window);
  const Intervals communication = within(rank.communication, window);
  const Intervals waiting = without(within(rank.under_way, window), communication);
  return {.span_us = window.length_us(),
          .compute_us = length_us(compute),
          .communication_us = length_us(communication),
          .exposed_us = length_us(without(communication, compute)),
          .waiting_us = length_us(without(waiting, compute))};
}

std::vector<StepShares> shares_by_step(const TracedJob& trace) {
  std::set<std::int64_t> numbers;
  for (const RankTimeline& rank : trace.ranks)
    for (const auto& [number, time] : rank.steps) numbers.insert(number);
  std::vector<StepShares> all;
  for (const std::int64_t number : numbers) {
    StepShares step;
    step.step = number;
    for (const RankTimeline& rank : trace.ranks)
      if (const auto time = rank.steps.find(number); time != rank.steps.end())
        step.ranks.push_back({rank.rank, shares_of(rank, time->second)});
    all.push_back(std::move(step));
  }
  if (all.empty()) {
    all.emplace_back();
    for (const RankTimeline& rank : trace.ranks)
      if (rank.found) all.back().ranks.push_back({rank.rank, shares_of(rank, rank.whole)});
  }
  for (StepShares& step : all) step.mean = mean_of(step.ranks);
  return all;
}

StepShares mean_step(const std::vector<StepShares>& steps) {
  std::map<int, std::vector<RankShares>> by_rank;
  for (const StepShares& step : steps)
    for (const RankShares& of : step.ranks) by_rank[of.rank].push_back(of);
  StepShares mean;
  for (const auto& [rank, list] : by_rank) mean.ranks.push_back({rank, mean_of(list)});
  mean.mean = mean_of(mean.ranks);
  return mean;
}

}  // namespace tutti::analysis
