#include "tools/trace/calls.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "tools/bench/row.h"

namespace tutti::analysis {
namespace {

constexpr double kOutlier = 2;  // times the usual ratio

using Kind = std::pair<std::string, std::string>;  // verb and algorithm

// Measured over predicted, of the calls whose time was predicted.
std::map<Kind, std::vector<double>> ratios_of(const TracedJob& trace) {
  std::map<Kind, std::vector<double>> ratios;
  for (const TracedCall& call : trace.calls)
    if (call.predicted_us.value_or(0) > 0)
      ratios[{call.verb, call.algorithm}].push_back(call.took_us() / *call.predicted_us);
  return ratios;
}

bool tells_lateness(const TracedCall& call) { return !call.message && call.ranks >= 2 && call.is_complete(); }

// How late each rank was, by the number of the step, or of the first call of a stretch.
using Lateness = std::map<std::int64_t, std::vector<double>>;

// A rank is as late in a step as in the call that it is latest in: the others follow from it.
Lateness lateness_by_step(const TracedJob& trace) {
  Lateness late;
  for (const TracedCall& call : trace.calls) {
    if (!tells_lateness(call)) continue;
    const std::optional<std::int64_t> number = step_of(trace, call);
    if (!number) continue;
    std::vector<double>& row = late[*number];
    row.resize(trace.ranks.size());
    for (const CallPart& part : call.parts) {
      double& of = row[static_cast<std::size_t>(part.rank)];
      of = std::max(of, part.late_us);
    }
  }
  return late;
}

// Of an iteration's calls a rank is late in the first one alone: all that it was late counts, over so many calls each
// that an iteration lies within.
Lateness lateness_by_stretch(const TracedJob& trace, std::size_t stretch) {
  Lateness late;
  std::size_t seen = 0;
  std::vector<double>* row = nullptr;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const TracedCall& call = trace.calls[i];
    if (!tells_lateness(call)) continue;
    if (seen++ % stretch == 0) {
      row = &late[static_cast<std::int64_t>(i)];
      row->resize(trace.ranks.size());
    }
    for (const CallPart& part : call.parts) (*row)[static_cast<std::size_t>(part.rank)] += part.late_us;
  }
  if (seen % stretch != 0 && late.size() > 1) late.erase(std::prev(late.end()));  // too short to compare
  return late;
}

// What a step takes, or a stretch of calls. Of steps that were recorded, because much of the trace may lie outside of
// them: initialisation, evaluation, checkpoints.
double step_us_of(const TracedJob& trace, std::size_t rows) {
  std::vector<double> lengths;
  for (const RankTimeline& rank : trace.ranks)
    for (const auto& [number, time] : rank.steps) lengths.push_back(time.length_us());
  return lengths.empty() ? trace.whole().length_us() / static_cast<double>(rows) : bench::median_of(lengths);
}

}  // namespace

std::vector<VerbTotals> totals_of(const TracedJob& trace) {
  std::map<Kind, VerbTotals> by_kind;
  std::map<Kind, double> moved;  // GB/s times us
  for (const TracedCall& call : trace.calls) {
    VerbTotals& of = by_kind[{call.verb, call.algorithm}];
    const double took = call.took_us();
    ++of.calls;
    of.bytes += call.bytes;
    of.took_us += took;
    moved[{call.verb, call.algorithm}] += call.busbw() * took;
    if (call.predicted_us.value_or(0) <= 0) continue;
    of.predicted_us += *call.predicted_us;
    of.measured_us += took;
  }
  for (const auto& [kind, ratios] : ratios_of(trace)) by_kind[kind].usual_ratio = bench::median_of(ratios);
  std::vector<VerbTotals> all;
  for (auto& [kind, of] : by_kind) {
    of.verb = kind.first;
    of.algorithm = kind.second;
    of.busbw = of.took_us > 0 ? moved[kind] / of.took_us : 0;
    all.push_back(of);
  }
  std::ranges::stable_sort(all, std::greater(), &VerbTotals::took_us);
  return all;
}

std::vector<Outlier> outliers_of(const TracedJob& trace) {
  std::map<Kind, double> usual;
  for (const auto& [kind, ratios] : ratios_of(trace)) usual[kind] = bench::median_of(ratios);
  std::vector<std::pair<double, Outlier>> found;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const TracedCall& call = trace.calls[i];
    if (call.predicted_us.value_or(0) <= 0) continue;
    const double ratio = call.took_us() / *call.predicted_us, of_kind = usual[{call.verb, call.algorithm}];
    if (ratio > kOutlier * of_kind) found.push_back({(ratio - of_kind) * *call.predicted_us, {i, ratio, of_kind}});
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& one) { return one.first; });
  std::vector<Outlier> outliers;
  for (const auto& [too_long, outlier] : found) outliers.push_back(outlier);
  return outliers;
}

std::map<std::pair<int, int>, double> waits_of(const TracedJob& trace) {
  std::map<std::pair<int, int>, std::vector<Interval>> times;
  for (const RankTimeline& rank : trace.ranks)
    for (const PeerWait& wait : rank.waits) times[{rank.rank, wait.peer}].push_back(wait.time);
  std::map<std::pair<int, int>, double> waits;
  for (auto& [pair, list] : times)
    if (const double length = length_us(united(std::move(list))); length > 0) waits[pair] = length;
  return waits;
}

std::vector<std::int64_t> step_numbers(const TracedJob& trace) {
  std::set<std::int64_t> numbers;
  for (const RankTimeline& rank : trace.ranks)
    for (const auto& [number, time] : rank.steps) numbers.insert(number);
  return {numbers.begin(), numbers.end()};
}

std::optional<std::int64_t> step_of(const TracedJob& trace, const TracedCall& call) {
  for (const CallPart& part : call.parts) {
    for (const auto& [number, time] : trace.ranks[static_cast<std::size_t>(part.rank)].steps)
      if (time.begin_us <= part.entered_us && part.entered_us < time.end_us) return number;
  }
  return std::nullopt;
}

std::optional<TracedStraggler> straggler_of(const TracedJob& trace) {
  const bool by_step = !step_numbers(trace).empty();
  const auto calls = static_cast<std::size_t>(std::ranges::count_if(trace.calls, tells_lateness));
  const std::size_t stretch = by_step ? 0 : std::max<std::size_t>(1, calls / kLeastCalls);
  std::vector<std::int64_t> numbers;
  std::vector<std::vector<double>> late;
  for (auto& [number, row] : by_step ? lateness_by_step(trace) : lateness_by_stretch(trace, stretch)) {
    numbers.push_back(number);
    late.push_back(std::move(row));
  }
  if (late.size() < (by_step ? kLeastSteps : kLeastCalls)) return std::nullopt;
  const std::optional<tools::Straggler> found = tools::find_straggler(late, step_us_of(trace, late.size()));
  if (!found) return std::nullopt;
  return TracedStraggler{found->rank, found->late_us, found->share, numbers[found->since], stretch};
}

std::optional<std::size_t> slowest_call(const TracedJob& trace) {
  std::optional<std::size_t> slowest;
  for (std::size_t i = 0; i < trace.calls.size(); ++i)
    if (!trace.calls[i].message && (!slowest || trace.calls[i].took_us() > trace.calls[*slowest].took_us()))
      slowest = i;
  return slowest;
}

std::string name_of(const TracedCall& call) { return call.communicator + "#" + std::to_string(call.sequence); }

std::vector<std::size_t> calls_named(const TracedJob& trace, const std::string& name) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const TracedCall& call = trace.calls[i];
    if (!call.message && (name_of(call) == name || std::to_string(call.sequence) == name)) found.push_back(i);
  }
  return found;
}

TracedJob only_step(const TracedJob& trace, std::int64_t number) {
  TracedJob step = trace;
  step.calls.clear();
  step.steps.clear();
  std::map<std::size_t, std::size_t> calls, steps;  // where they went
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    if (step_of(trace, trace.calls[i]) != number) continue;
    calls[i] = step.calls.size();
    step.calls.push_back(trace.calls[i]);
  }
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const auto call = calls.find(trace.steps[i].call);
    if (call == calls.end()) continue;
    steps[i] = step.steps.size();
    step.steps.push_back(trace.steps[i]);
    step.steps.back().call = call->second;
  }
  for (ScheduleStep& of : step.steps) {
    if (!of.sender) continue;
    const auto sender = steps.find(*of.sender);
    of.sender = sender == steps.end() ? std::nullopt : std::optional(sender->second);
  }
  for (RankTimeline& rank : step.ranks) {
    const auto window = rank.steps.find(number);
    rank.found = window != rank.steps.end();
    rank.whole = rank.found ? window->second : Interval{};
    std::erase_if(rank.steps, [&](const auto& one) { return one.first != number; });
    std::erase_if(rank.waits, [&](const PeerWait& wait) {
      return wait.time.begin_us < rank.whole.begin_us || wait.time.begin_us >= rank.whole.end_us;
    });
    for (Intervals* const times : {&rank.compute, &rank.communication, &rank.under_way})
      *times = within(*times, rank.whole);
  }
  return step;
}

}  // namespace tutti::analysis
