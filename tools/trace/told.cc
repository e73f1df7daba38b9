#include "tools/trace/told.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/told.h"
#include "tools/bench/row.h"
#include "tools/bench/sizes.h"
#include "tools/trace/calls.h"
#include "tools/trace/critical_path.h"
#include "tools/trace/shares.h"

namespace tutti::analysis {
namespace {

// What one screen has room for.
constexpr std::size_t kMostRanks = 12, kMostSteps = 6, kMostOutliers = 3, kMostPath = 8, kMostMatrix = 12,
                      kMostPairs = 8;

std::string us(double time_us) { return plan::words_of_seconds(time_us * 1e-6); }
std::string bytes(double count) { return bench::text_of_bytes(static_cast<std::uint64_t>(count)); }
std::string rate(double gb_per_s) {
  if (gb_per_s <= 0) return "-";
  return gb_per_s >= 1 ? fmt::format("{:.3g} GB/s", gb_per_s) : fmt::format("{:.3g} MB/s", 1e3 * gb_per_s);
}
std::string times(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}
std::string gamma(const Shares& of, double value) { return of.compute_us > 0 ? fmt::format("{:.3f}", value) : "-"; }

std::string title_of(const TracedJob& trace, const std::string& title) {
  const std::vector<std::int64_t> steps = step_numbers(trace);
  std::string words = title + ":";
  if (trace.recorder == TracedJob::Recorder::torch)
    words += fmt::format(" torch.profiler{}{},", trace.backend.empty() ? "" : " of ", trace.backend);
  if (!trace.job.empty()) words += fmt::format(" job {},", trace.job);
  words += " " + times(trace.ranks.size(), "rank");
  if (trace.hosts.size() > 1) words += fmt::format(" on {} hosts", trace.hosts.size());
  words += ", " + us(trace.whole().length_us());
  if (steps.size() == 1) words += fmt::format(", step {}", steps.front());
  if (steps.size() > 1) words += fmt::format(", steps {} to {}", steps.front(), steps.back());
  words += "\n";
  for (const std::string& note : trace.notes) words += "  " + note + "\n";
  return words;
}

// Time that is none of the others: in a trace of Tutti only where calls are missing.
bool has_other(const Shares& of) { return of.other_us() > 0.01 * of.span_us; }

std::string share_line(const std::string& name, const Shares& of, bool other) {
  return fmt::format("  {:>6} {:>10} {:>10} {:>14} {:>10} {:>10}{} {:>10} {:>10}\n", name, us(of.span_us),
                     us(of.compute_us), us(of.communication_us), us(of.exposed_us), us(of.waiting_us),
                     other ? fmt::format(" {:>10}", us(of.other_us())) : "", gamma(of, of.gamma_raw()),
                     gamma(of, of.gamma_exposed()));
}

std::string share_head(const char* first, bool other) {
  return fmt::format("  {:>6} {:>10} {:>10} {:>14} {:>10} {:>10}{} {:>10} {:>10}\n", first, "span", "compute",
                     "communication", "exposed", "waiting", other ? fmt::format(" {:>10}", "other") : "", "gamma raw",
                     "exposed");
}

std::string shares_text(const TracedJob& trace) {
  const std::vector<StepShares> steps = shares_by_step(trace);
  StepShares mean = mean_step(steps);
  if (mean.ranks.empty()) return "";
  const bool other = trace.recorder == TracedJob::Recorder::torch ||
                     std::ranges::any_of(mean.ranks, [](const RankShares& of) { return has_other(of.shares); });
  std::string text =
      fmt::format("\nwhere the time went{}\n", steps.front().step && steps.size() > 1 ? ", mean of a step" : "");
  text += share_head("rank", other);
  // Those that computed longest and shortest say most.
  std::size_t left_out = 0;
  if (mean.ranks.size() > kMostRanks) {
    std::ranges::stable_sort(mean.ranks, std::greater(), [](const RankShares& of) { return of.shares.compute_us; });
    left_out = mean.ranks.size() - kMostRanks;
    mean.ranks.erase(mean.ranks.begin() + kMostRanks / 2, mean.ranks.end() - kMostRanks / 2);
  }
  for (std::size_t i = 0; i < mean.ranks.size(); ++i) {
    if (left_out > 0 && i == kMostRanks / 2) text += fmt::format("  ... {} between these\n", times(left_out, "rank"));
    text += share_line(std::to_string(mean.ranks[i].rank), mean.ranks[i].shares, other);
  }
  if (mean.ranks.size() > 1) text += share_line("mean", mean.mean, other);
  if (steps.size() < 2) return text;

  std::vector<double> raw, exposed;
  for (const StepShares& step : steps) {
    raw.push_back(step.mean.gamma_raw());
    exposed.push_back(step.mean.gamma_exposed());
  }
  text += fmt::format("\ngamma of {}: raw {:.3f} ({:.3f} to {:.3f}), exposed {:.3f} ({:.3f} to {:.3f}) in the median\n",
                      times(steps.size(), "step"), bench::median_of(raw), std::ranges::min(raw), std::ranges::max(raw),
                      bench::median_of(exposed), std::ranges::min(exposed), std::ranges::max(exposed));
  std::vector<StepShares> shown = steps;
  if (shown.size() > kMostSteps) {
    std::ranges::stable_sort(shown, std::greater(), [](const StepShares& of) { return of.mean.span_us; });
    shown.resize(kMostSteps);
    text += fmt::format("  the longest {}\n", kMostSteps);
  }
  text += share_head("step", other);
  for (const StepShares& step : shown) text += share_line(std::to_string(*step.step), step.mean, other);
  return text;
}

std::string call_words(const TracedJob& trace, const TracedCall& call) {
  std::string words = call.verb;
  if (trace.recorder == TracedJob::Recorder::tutti) words += " " + name_of(call);
  if (call.bytes > 0) words += " of " + bytes(call.bytes);
  if (!call.algorithm.empty()) words += " by " + call.algorithm;
  if (const auto step = step_of(trace, call)) words += fmt::format(" in step {}", *step);
  return words;
}

std::string calls_text(const TracedJob& trace) {
  const std::vector<VerbTotals> totals = totals_of(trace);
  if (totals.empty()) return "\nno calls are in it\n";
  std::string text = fmt::format("\n  {:<14} {:<20} {:>7} {:>10} {:>11} {:>10} {:>10} {:>11}\n", "verb", "algorithm",
                                 "calls", "bytes", "busbw", "took", "predicted", "x predicted");
  for (const VerbTotals& of : totals) {
    const bool predicted = of.usual_ratio > 0;
    text += fmt::format("  {:<14} {:<20} {:>7} {:>10} {:>11} {:>10} {:>10} {:>11}\n", of.verb,
                        of.algorithm.empty() ? "-" : of.algorithm, of.calls, of.bytes > 0 ? bytes(of.bytes) : "-",
                        rate(of.busbw), us(of.took_us), predicted ? us(of.predicted_us) : "-",
                        predicted ? fmt::format("{:.2f}", of.usual_ratio) : "-");
  }
  const std::vector<Outlier> outliers = outliers_of(trace);
  if (outliers.empty()) return text;
  text += fmt::format("  {} took over twice as long, for what was predicted, as such calls usually do:\n",
                      times(outliers.size(), "call"));
  for (std::size_t i = 0; i < std::min(kMostOutliers, outliers.size()); ++i) {
    const TracedCall& call = trace.calls[outliers[i].call];
    text += fmt::format("    {}: {}, {:.1f} times what was predicted; usual is {:.2f}\n", call_words(trace, call),
                        us(call.took_us()), outliers[i].ratio, outliers[i].usual_ratio);
  }
  return text;
}

std::string matrix_text(const TracedJob& trace, const std::map<std::pair<int, int>, double>& waits) {
  std::string text = "\nwho waited for whom\n";
  if (trace.ranks.size() > kMostMatrix) {
    std::vector<std::pair<std::pair<int, int>, double>> pairs(waits.begin(), waits.end());
    std::ranges::stable_sort(pairs, std::greater(), [](const auto& pair) { return pair.second; });
    for (std::size_t i = 0; i < std::min(kMostPairs, pairs.size()); ++i)
      text += fmt::format("  rank {} for {}: {}\n", pairs[i].first.first, pairs[i].first.second, us(pairs[i].second));
    return text;
  }
  text += "    rank |";
  for (const RankTimeline& rank : trace.ranks) text += fmt::format(" {:>9}", fmt::format("for {}", rank.rank));
  for (const RankTimeline& waiter : trace.ranks) {
    text += fmt::format("\n  {:>6} |", waiter.rank);
    for (const RankTimeline& whom : trace.ranks) {
      const auto wait = waits.find({waiter.rank, whom.rank});
      text += fmt::format(" {:>9}", wait == waits.end() ? "." : us(wait->second));
    }
  }
  return text + "\n";
}

std::string waits_text(const TracedJob& trace) {
  if (std::ranges::count(trace.ranks, true, &RankTimeline::found) < 2) return "";
  const std::map<std::pair<int, int>, double> waits = waits_of(trace);
  std::string text = waits.empty() ? "\n" : matrix_text(trace, waits);
  const std::vector<std::int64_t> steps = step_numbers(trace);
  if (const auto found = straggler_of(trace)) {
    const std::string what = found->stretch == 0   ? "steps"
                             : found->stretch == 1 ? "calls"
                                                   : fmt::format("stretches of {} calls", found->stretch);
    text += fmt::format(
        "rank {} keeps the others waiting: {} later than the others, the last in {:.0f} % of {}, since {} {}\n",
        found->rank, us(found->late_us), 100 * found->share, what, steps.empty() ? "call" : "step", found->since);
  } else if (steps.empty() ? trace.calls.size() < kLeastCalls : steps.size() < kLeastSteps) {
    text += fmt::format("nobody is named as the one that all wait for: that takes {} steps, or {} calls without them\n",
                        kLeastSteps, kLeastCalls);
  } else {
    text += "nobody keeps the others waiting again and again\n";
  }
  return text;
}

std::string path_text(const TracedJob& trace, std::size_t call) {
  const std::vector<PathStep> path = critical_path(trace, call);
  if (path.empty()) return "  its steps are not in the trace: they are there for calls of 4 KB and more\n";
  double gaps = 0;
  for (const PathStep& one : path) gaps += one.gap_us;
  std::string text =
      fmt::format("  its critical path has {}, and {} between them\n", times(path.size(), "step"), us(gaps));
  for (std::size_t i = 0; i < std::min(kMostPath, path.size()); ++i) {
    const ScheduleStep& step = trace.steps[path[i].step];
    text += fmt::format("    {:>10} rank {:<3} lane {} step {}: {}", "+" + us(path[i].gap_us), step.rank, step.lane,
                        step.number, step.operation);
    if (step.from != kNobody) text += fmt::format(" from {}", step.from);
    if (step.to != kNobody) text += fmt::format(" to {}", step.to);
    text +=
        fmt::format(", {}{}\n", us(path[i].length_us), path[i].by_message ? ", by the message of the step before" : "");
  }
  if (path.size() > kMostPath) text += fmt::format("    ... and {} more\n", path.size() - kMostPath);
  return text;
}

std::string slowest_text(const TracedJob& trace, std::optional<std::size_t> chosen) {
  const std::optional<std::size_t> index = chosen ? chosen : slowest_call(trace);
  if (!index) return "";
  const TracedCall& call = trace.calls[*index];
  std::string text =
      fmt::format("\n{} {}: {}", chosen ? "the call" : "the slowest call", call_words(trace, call), us(call.took_us()));
  if (call.predicted_us) text += fmt::format(" ({} predicted)", us(*call.predicted_us));
  if (call.parts.size() > 1 && call.last_to_enter().late_us > 0)
    text += fmt::format("; rank {} came last, {} behind the first", call.last_to_enter().rank,
                        us(call.last_to_enter().late_us));
  text += "\n";
  return trace.recorder == TracedJob::Recorder::tutti ? text + path_text(trace, *index) : text;
}

}  // namespace

std::string to_text(const TracedJob& trace, const std::string& title, std::optional<std::size_t> call) {
  return title_of(trace, title) + shares_text(trace) + calls_text(trace) + waits_text(trace) +
         slowest_text(trace, call);
}

}  // namespace tutti::analysis
