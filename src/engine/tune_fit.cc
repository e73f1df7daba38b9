#include "engine/tune_fit.h"

#include <cmath>
#include <map>
#include <utility>

namespace tutti::engine {
namespace {

// The rates that are looked for: all of them, and where the caches end.
constexpr double topology::Rates::*kSought[] = {
#define X(member, meaning) &topology::Rates::member,
    TUTTI_RATES(X)
#undef X
        & topology::Rates::cache_bytes,
};

// Square of the logarithm: twice too long counts as much as half. Huge where nothing is predicted at all.
double distance(const Probe& probe, const topology::Rates& rates) {
  const double predicted = probe.pricer->at(probe.bytes, rates);
  const double off = std::log(std::max(predicted, 1e-12) / probe.seconds);
  return off * off;
}

double distance(std::span<const Probe> probes, const topology::Rates& rates) {
  double sum = 0;
  for (const Probe& probe : probes) sum += distance(probe, rates);
  return sum / static_cast<double>(probes.size());
}

}  // namespace

double error_of(std::span<const Probe> probes, const topology::Rates& rates) {
  return std::exp(std::sqrt(distance(probes, rates)));
}

bool improve(std::span<const Probe> probes, topology::Rates& rates, double& error, double factor) {
  bool better = false;
  for (double topology::Rates::*const rate : kSought) {
    for (const double by : {factor, 1 / factor}) {
      topology::Rates tried = rates;
      tried.*rate *= by;
      const double reached = error_of(probes, tried);
      if (reached >= error) continue;
      rates = tried;
      error = reached;
      better = true;
      break;
    }
  }
  return better;
}

double regret_of(std::span<const Probe> probes, const topology::Rates& rates) {
  struct Contest {
    double quickest = HUGE_VAL, predicted = HUGE_VAL, chosen = 0;
  };
  std::map<std::pair<Verb, std::uint64_t>, Contest> contests;
  for (const Probe& probe : probes) {
    if (probe.row->user_windows) continue;  // another contest: it depends on the buffers
    Contest& contest = contests[{probe.row->verb, probe.bytes}];
    contest.quickest = std::min(contest.quickest, probe.seconds);
    const double predicted = probe.pricer->at(probe.bytes, rates);
    if (predicted >= contest.predicted) continue;
    contest.predicted = predicted;
    contest.chosen = probe.seconds;
  }
  double sum = 0;
  for (const auto& [cell, contest] : contests) sum += std::log(contest.chosen / contest.quickest);
  return contests.empty() ? 1 : std::exp(sum / static_cast<double>(contests.size()));
}

}  // namespace tutti::engine
