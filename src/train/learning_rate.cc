#include "tutti/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tutti/error.h"

namespace tutti::train {
namespace {

void check_rate(bool good, const std::string& why) {
  if (!good) throw Error(ErrorCode::invalid_argument, "learning rate: " + why);
}

bool is_share(double x) { return x >= 0 && x <= 1; }

void check_fields(const LearningRate& rate, std::int64_t step) {
  check_rate(std::isfinite(rate.peak) && rate.peak >= 0, "peak must be a finite number of at least 0");
  check_rate(rate.warmup_steps >= 0, "warmup_steps is " + std::to_string(rate.warmup_steps));
  check_rate(is_share(rate.warmup_from) && is_share(rate.final_share),
             "warmup_from and final_share are shares of the peak, from 0 to 1");
  check_rate(rate.decay == Decay::none || rate.total_steps > rate.warmup_steps,
             "a decay ends at total_steps, which is " + std::to_string(rate.total_steps) +
                 " and must be more than warmup_steps, " + std::to_string(rate.warmup_steps));
  check_rate(step >= 1, "step " + std::to_string(step) + "; steps count from 1");
}

// sin(pi / 2 * x) for 0 <= x <= 0.5. The cosine of a C library may differ from another's in the last bit; this is made
// of operations that every machine rounds alike.
double quarter_sine(double x) {
  const double t = x * 1.5707963267948966, square = t * t;
  double sum = 0;
  for (int n = 17; n >= 1; n -= 2) sum = std::fma(-square / ((n + 1) * (n + 2)), sum, 1.0);
  return t * sum;
}

// From 1 at x = 0 down to 0 at x = 1: (1 + cos(pi x)) / 2.
double half_cosine(double x) {
  const double sine = quarter_sine(std::min(x, 1 - x));
  return x <= 0.5 ? std::fma(-sine, sine, 1.0) : sine * sine;
}

}  // namespace

// fma says where to round, so that no compiler decides it.
double LearningRate::at(std::int64_t step) const {
  check_fields(*this, step);
  if (step < warmup_steps) {
    const double done = static_cast<double>(step) / static_cast<double>(warmup_steps);
    return peak * std::fma(1 - warmup_from, done, warmup_from);
  }
  if (decay == Decay::none) return peak;
  const double steps = static_cast<double>(std::min(step, total_steps) - warmup_steps);
  const double done = steps / static_cast<double>(total_steps - warmup_steps);
  const double left = decay == Decay::linear ? 1 - done : half_cosine(done);
  return peak * std::fma(1 - final_share, left, final_share);
}

double scaled_rate(double rate, double k, ScalingRule rule) {
  check_rate(std::isfinite(k) && k > 0, "a batch of k times the size, where k must be more than 0");
  if (rule == ScalingRule::linear) return rate * k;
  return rule == ScalingRule::square_root ? rate * std::sqrt(k) : rate;
}

}  // namespace tutti::train
