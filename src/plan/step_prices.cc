#include "plan/step_prices.h"

#include <algorithm>
#include <cmath>

namespace tutti::plan {
namespace {

// From here on a call takes as long as its bytes do, wherever they lie.
constexpr double kLargeBytes = 1 << 20;

double whole_of(const topology::MeasuredStep& step) { return static_cast<double>(step.bytes) * step.buckets; }

}  // namespace

StepPrices::StepPrices(const std::vector<topology::MeasuredStep>& steps) {
  std::map<int, double> largest;  // bucket of a stage
  for (const topology::MeasuredStep& step : steps) {
    Stage& stage = stages_[step.stage];
    stage.buckets = stage.buckets == 0 ? step.buckets : std::min(stage.buckets, step.buckets);
    largest[step.stage] = std::max(largest[step.stage], static_cast<double>(step.bytes));
  }
  for (const topology::MeasuredStep& step : steps) {
    Stage& stage = stages_[step.stage];
    const auto bytes = static_cast<double>(step.bytes), large = std::min(kLargeBytes, largest[step.stage]);
    if (bytes >= large) stage.rate[std::log(whole_of(step))] = std::log(step.seconds / whole_of(step));
    if (bytes <= large && step.buckets == stage.buckets)
      stage.small[std::log(bytes)] = std::log(step.seconds / step.buckets);
  }
}

double StepPrices::at(const Curve& curve, double value) {
  const double place = std::log(value);
  const auto behind = curve.lower_bound(place);
  if (behind == curve.end()) return std::exp(curve.rbegin()->second);
  if (behind == curve.begin() || behind->first == place) return std::exp(behind->second);
  const auto before = std::prev(behind);
  const double part = (place - before->first) / (behind->first - before->first);
  return std::exp(before->second + part * (behind->second - before->second));
}

// What small ones take at all is alike wherever their bytes lie; the rest grows as the bytes of large ones do.
double StepPrices::seconds(int stage, double bytes, double whole) const {
  const Stage& of = stages_.at(stage);
  const double rate = at(of.rate, whole);
  if (of.small.empty() || bytes >= std::exp(of.small.rbegin()->first)) return bytes * rate;
  const double alone = std::exp(of.small.begin()->second), here = at(of.small, bytes);
  const double usual = at(of.rate, std::exp(of.small.rbegin()->first) * of.buckets);
  return alone + std::max(0.0, here - alone) * rate / usual;
}

}  // namespace tutti::plan
