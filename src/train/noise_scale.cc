#include "tutti/train/noise_scale.h"

#include <cmath>

#include "base/formatted.h"
#include "tutti/error.h"

namespace tutti::train {
namespace {

void check_noise(bool good, const char* why) {
  if (!good) throw Error(ErrorCode::invalid_argument, std::string("noise scale: ") + why);
}

// As "1234" or "1.2e+06".
std::string rounded(double number) { return formatted(number >= 100 && number < 1e6 ? "%.0f" : "%.2g", number); }

}  // namespace

NoiseEstimate estimate_noise(const NoiseSample& s) {
  check_noise(s.small_batch > 0 && s.large_batch > s.small_batch && std::isfinite(s.large_batch),
              "the batches of a sample must differ, the small one being more than 0 (on one rank there is only one)");
  check_noise(s.small_squares >= 0 && s.large_squares >= 0, "a squared norm is not a number, or less than 0");
  return {
      .signal = (s.large_batch * s.large_squares - s.small_batch * s.small_squares) / (s.large_batch - s.small_batch),
      .noise = (s.small_squares - s.large_squares) / (1 / s.small_batch - 1 / s.large_batch)};
}

MoreRanks with_more_ranks(double scale, double batch, double k) {
  check_noise(scale >= 0 && batch > 0 && k > 0, "scale, batch and the factor of ranks must be positive");
  return {.steps = (1 + scale / (k * batch)) / (1 + scale / batch), .examples = (scale + k * batch) / (scale + batch)};
}

NoiseScale::NoiseScale(double memory) : memory_(memory) {
  check_noise(memory >= 0 && memory < 1, "memory must be at least 0 and less than 1");
}

void NoiseScale::add(const NoiseSample& sample) {
  const NoiseEstimate one = estimate_noise(sample);
  if (!std::isfinite(one.signal) || !std::isfinite(one.noise)) return;  // a step that overflowed says nothing
  sum_.signal += (1 - memory_) * (one.signal - sum_.signal);
  sum_.noise += (1 - memory_) * (one.noise - sum_.noise);
  weight_ += (1 - memory_) * (1 - weight_);
  ++samples_;
}

std::optional<NoiseEstimate> NoiseScale::average() const {
  if (samples_ == 0) return std::nullopt;
  return NoiseEstimate{.signal = sum_.signal / weight_, .noise = sum_.noise / weight_};
}

std::optional<double> NoiseScale::scale() const {
  if (samples_ == 0 || !(sum_.signal > 0)) return std::nullopt;
  return sum_.noise > 0 ? sum_.noise / sum_.signal : 0;
}

std::string NoiseScale::to_text(double batch) const {
  const std::optional<double> known = scale();
  if (!known.has_value()) {
    return samples_ == 0 ? "gradient noise scale: not known before the first step on two ranks or more"
                         : "gradient noise scale: no signal above the noise in " + std::to_string(samples_) +
                               (samples_ == 1 ? " step" : " steps") + "; larger batches, or more steps, will tell";
  }
  const MoreRanks twice = with_more_ranks(*known, batch, 2);
  const char* const beside = batch < *known / 2 ? "small beside it" : batch <= *known * 2 ? "about it" : "beyond it";
  const char* const advice = batch < *known / 2    ? "more ranks pay"
                             : batch <= *known * 2 ? "more ranks pay in part"
                                                   : "more ranks buy little";
  return "gradient noise scale " + rounded(*known) + " examples; a batch of " + rounded(batch) + " is " + beside +
         ": twice the ranks would need " + rounded(100 * twice.steps) + " % of the steps and " +
         rounded(100 * twice.examples) + " % of the examples (" + advice + ")";
}

}  // namespace tutti::train
