#include "choice/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti::choice {
namespace {

constexpr double topology::Rates::*kSought[] = {
#define X(member, meaning) &topology::Rates::member,
    TUTTI_RATES(X)
#undef X
};
constexpr std::size_t kMany = std::size(kSought);

using Vector = std::array<double, kMany>;
using Matrix = std::array<Vector, kMany>;

constexpr int kRounds = 20;           // of a search, at most
constexpr int kRoundsToCompare = 3;   // of one that is to show whether it leads somewhere
constexpr double kNudge = 0.02;       // of a logarithm, to see what a rate does
constexpr double kLargestStep = 1.0;  // of a logarithm, in one round
constexpr double kEnough = 1e-3;      // a round that moves all logarithms by less is the last
// How strongly rates are held where they begin: as much as so many calls that depend on one rate only. Little beside
// what is measured, and enough for what is not.
constexpr double kHeld = 0.02;
constexpr double kLeastSpread = 0.02;  // calls that are off by so little all count in full
constexpr std::uint64_t kLeastCache = 16 << 10;
constexpr double kInstant = 1e-12;  // seconds: less than this nothing takes

double log_off(const TimedCall& call, const topology::Rates& rates) {
  return std::log(std::max(call.predicted(rates), kInstant) / std::max(call.seconds, kInstant));
}

// Solves a x = b for a symmetric, positive definite a (Cholesky). Nothing where it is neither.
std::optional<Vector> solved(Matrix a, Vector b) {
  for (std::size_t i = 0; i < kMany; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i == j && sum <= 0) return std::nullopt;
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < kMany; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = kMany; i-- > 0;) {
    for (std::size_t k = i + 1; k < kMany; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

// Damped least squares (Levenberg and Marquardt) over the logarithms of the rates, each call weighted by how far off it
// is beside the others (Cauchy's weights).
class Search {
 public:
  Search(std::span<const TimedCall> calls, const topology::Rates& start) : calls_(calls), start_(start) {}

  topology::Rates run(const topology::Rates& from, int rounds = kRounds) {
    best_ = from;
    damping_ = 1e-2;
    std::vector<double> off = offs(best_);
    for (int round = 0; round < rounds; ++round) {
      const double spread = spread_of(off);
      const Slopes slopes = slopes_at(off);
      bool better = false;
      double moved = 0;
      for (int attempt = 0; attempt < 8 && !better; ++attempt) {
        const std::optional<Vector> step = step_for(off, slopes, spread);
        if (!step) {
          damping_ *= 4;
          continue;
        }
        const topology::Rates tried = stepped(best_, *step);
        std::vector<double> reached = offs(tried);
        better = cost(reached, tried, spread) < cost(off, best_, spread);
        damping_ = better ? damping_ / 4 : damping_ * 4;
        if (!better) continue;
        best_ = tried;
        off = std::move(reached);
        for (const double each : *step) moved = std::max(moved, std::abs(each));
      }
      if (moved < kEnough) break;
    }
    return best_;
  }

  bool is_better(const topology::Rates& rates, const topology::Rates& than) const {
    const std::vector<double> off = offs(rates), others = offs(than);
    const double spread = spread_of(others);
    return cost(off, rates, spread) < cost(others, than, spread);
  }

 private:
  using Slopes = std::array<std::vector<double>, kMany>;  // by rate and call

  std::vector<double> offs(const topology::Rates& rates) const {
    std::vector<double> all;
    for (const TimedCall& call : calls_) all.push_back(log_off(call, rates));
    return all;
  }

  static double spread_of(const std::vector<double>& off) {
    std::vector<double> far;
    for (const double each : off) far.push_back(std::abs(each));
    std::nth_element(far.begin(), far.begin() + static_cast<std::ptrdiff_t>(far.size() / 2), far.end());
    return std::max(3 * far[far.size() / 2], kLeastSpread);
  }

  bool sought(std::size_t i) const { return start_.*kSought[i] > 0; }

  double cost(const std::vector<double>& off, const topology::Rates& rates, double spread) const {
    double sum = 0;
    for (const double each : off) sum += spread * spread * std::log1p(each * each / (spread * spread));
    for (std::size_t i = 0; i < kMany; ++i) {
      const double away = sought(i) ? std::log(rates.*kSought[i] / (start_.*kSought[i])) : 0;
      sum += kHeld * away * away;
    }
    return sum;
  }

  Slopes slopes_at(const std::vector<double>& off) const {
    Slopes slopes;
    for (std::size_t i = 0; i < kMany; ++i) {
      slopes[i].assign(off.size(), 0);
      if (!sought(i)) continue;
      topology::Rates nudged = best_;
      nudged.*kSought[i] *= std::exp(kNudge);
      for (std::size_t k = 0; k < off.size(); ++k) slopes[i][k] = (log_off(calls_[k], nudged) - off[k]) / kNudge;
    }
    return slopes;
  }

  std::optional<Vector> step_for(const std::vector<double>& off, const Slopes& slopes, double spread) const {
    Matrix a{};
    Vector b{};
    for (std::size_t k = 0; k < off.size(); ++k) {
      const double weight = 1 / (1 + off[k] * off[k] / (spread * spread));
      for (std::size_t i = 0; i < kMany; ++i) {
        b[i] -= weight * slopes[i][k] * off[k];
        for (std::size_t j = 0; j <= i; ++j) a[i][j] += weight * slopes[i][k] * slopes[j][k];
      }
    }
    for (std::size_t i = 0; i < kMany; ++i) {
      const double away = sought(i) ? std::log(best_.*kSought[i] / (start_.*kSought[i])) : 0;
      b[i] -= kHeld * away;
      a[i][i] = a[i][i] * (1 + damping_) + kHeld;
    }
    return solved(a, b);
  }

  topology::Rates stepped(topology::Rates rates, const Vector& step) const {
    for (std::size_t i = 0; i < kMany; ++i) {
      if (sought(i)) rates.*kSought[i] *= std::exp(std::clamp(step[i], -kLargestStep, kLargestStep));
    }
    return rates;
  }

  std::span<const TimedCall> calls_;
  topology::Rates start_;
  topology::Rates best_;
  double damping_ = 1e-2;
};

}  // namespace

topology::Rates fit(std::span<const TimedCall> calls, const topology::Rates& start,
                    const std::function<void(double)>& say) {
  if (calls.empty()) return start;
  // Where the caches end lies between two sizes that were probed, and is no matter of slopes: each place is tried.
  std::set<double> borders;
  for (const TimedCall& call : calls) {
    if (start.cache_bytes > 0 && call.bytes >= kLeastCache) borders.insert(3.0 * static_cast<double>(call.bytes));
  }
  Search search(calls, start);
  topology::Rates best = search.run(start);
  double tried = 1;
  for (const double border : borders) {
    say(tried++ / static_cast<double>(borders.size() + 2));
    topology::Rates from = best;
    from.cache_bytes = border;
    const topology::Rates found = search.run(from, kRoundsToCompare);
    if (search.is_better(found, best)) best = found;
  }
  best = search.run(best);
  say(1);
  return best;
}

double error_of(std::span<const TimedCall> calls, const topology::Rates& rates) {
  double sum = 0;
  for (const TimedCall& call : calls) sum += std::abs(log_off(call, rates));
  return calls.empty() ? 1 : std::exp(sum / static_cast<double>(calls.size()));
}

double regret_of(std::span<const TimedCall> calls, const topology::Rates& rates) {
  struct Contest {
    double quickest = HUGE_VAL, predicted = HUGE_VAL, chosen = 0;
  };
  std::map<std::pair<Verb, std::uint64_t>, Contest> contests;
  for (const TimedCall& call : calls) {
    if (call.row->user_windows) continue;  // another contest: it depends on the buffers
    Contest& contest = contests[{call.row->verb, call.bytes}];
    contest.quickest = std::min(contest.quickest, call.seconds);
    const double predicted = call.predicted(rates);
    if (predicted >= contest.predicted) continue;
    contest.predicted = predicted;
    contest.chosen = call.seconds;
  }
  double sum = 0;
  for (const auto& [cell, contest] : contests) sum += std::log(contest.chosen / contest.quickest);
  return contests.empty() ? 1 : std::exp(sum / static_cast<double>(contests.size()));
}

void survey_factors(std::span<const TimedCall> calls, topology::Survey& survey) {
  constexpr double kMost = 1000;  // more says nothing about the machine
  std::map<std::string, std::map<std::uint64_t, double>> found;
  for (const TimedCall& call : calls) {
    const double predicted = call.predicted(survey.rates);
    found[survey_name(*call.row)][call.bytes] = std::clamp(call.seconds / predicted, 1 / kMost, kMost);
  }
  for (const auto& [name, by_bytes] : found) {
    for (std::size_t i = 0; i < topology::kSurveySizes; ++i) {
      const auto beyond = by_bytes.upper_bound(topology::kSurveyBytes[i]);
      survey.factors[name][i] = (beyond == by_bytes.begin() ? beyond : std::prev(beyond))->second;
    }
  }
}

}  // namespace tutti::choice
