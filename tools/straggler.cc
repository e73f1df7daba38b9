#include "tools/straggler.h"

#include <algorithm>

#include "tools/bench/row.h"

namespace tutti::tools {
namespace {

constexpr double kLeastShare = 0.6;  // of steps in which it is the last
constexpr double kLeastLate = 0.08;  // of a step
constexpr double kTimesNext = 2;     // as late as the next one

// The step from which on, however far one looks, the rank is last in kLeastShare of all. That there is one follows from
// its share over all steps.
std::size_t since_when(const std::vector<std::size_t>& last, std::size_t rank) {
  // What it has beyond its share so far: behind the lowest point it never has less again.
  std::size_t since = 0;
  double balance = 0, lowest = 0;
  for (std::size_t step = 0; step + 1 < last.size(); ++step) {
    balance += (last[step] == rank ? 1 : 0) - kLeastShare;
    if (balance >= lowest) continue;
    lowest = balance;
    since = step + 1;
  }
  return since;
}

// How much later than the middle of all each rank came.
std::vector<double> lateness_of(const std::vector<double>& arrivals) {
  const double middle = bench::median_of(arrivals);
  std::vector<double> late;
  for (const double arrived : arrivals) late.push_back(arrived - middle);
  return late;
}

}  // namespace

std::optional<Straggler> find_straggler(const std::vector<std::vector<double>>& arrivals, double step_us) {
  if (arrivals.empty() || arrivals.front().size() < 2) return std::nullopt;
  const std::size_t ranks = arrivals.front().size();
  std::vector<std::vector<double>> late(ranks);  // by rank, by step
  std::vector<std::size_t> last(arrivals.size());
  for (std::size_t step = 0; step < arrivals.size(); ++step) {
    const std::vector<double> of_step = lateness_of(arrivals[step]);
    last[step] = static_cast<std::size_t>(std::ranges::max_element(of_step) - of_step.begin());
    for (std::size_t rank = 0; rank < ranks; ++rank) late[rank].push_back(of_step[rank]);
  }
  std::vector<double> usual;  // in the median step
  for (const std::vector<double>& of_rank : late) usual.push_back(bench::median_of(of_rank));
  const auto worst = std::ranges::max_element(usual);
  Straggler found;
  found.rank = static_cast<std::size_t>(worst - usual.begin());
  // Of two ranks the middle lies between them: what counts is how far they are apart.
  found.late_us = ranks == 2 ? 2 * *worst : *worst;
  found.share = static_cast<double>(std::ranges::count(last, found.rank)) / static_cast<double>(last.size());
  double next = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (rank != found.rank) next = std::max(next, usual[rank]);
  if (found.share < kLeastShare || found.late_us < kLeastLate * step_us || found.late_us < kTimesNext * next)
    return std::nullopt;
  found.since = since_when(last, found.rank);
  return found;
}

}  // namespace tutti::tools
