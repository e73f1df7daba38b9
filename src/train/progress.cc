#include "tutti/train/progress.h"

#include <cmath>
#include <iterator>

#include "base/formatted.h"

namespace tutti::train {
namespace {

// As "850", "1.8k" or "23M".
std::string with_unit(double number) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  for (; unit + 1 < std::size(kUnits) && number >= 999.5; ++unit) number /= 1000;
  return formatted(number >= 9.95 || unit == 0 ? "%.0f%s" : "%.1f%s", number, kUnits[unit]);
}

// The two largest units.
std::string duration(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 60) return formatted("%lld s", whole);
  if (whole < 3600) return formatted("%lld m %lld s", whole / 60, whole % 60);
  if (whole < 86400) return formatted("%lld h %lld m", whole / 3600, whole % 3600 / 60);
  return formatted("%lld d %lld h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace

std::string to_text(const Progress& p, std::span<const Metric> metrics) {
  std::string line = "step " + std::to_string(p.step);
  if (p.total_steps > 0) {
    const double share = 100 * static_cast<double>(p.step) / static_cast<double>(p.total_steps);
    line += " of " + std::to_string(p.total_steps) + formatted(", %.0f %%", std::floor(share));
  }
  for (const Metric& metric : metrics) {
    if (metric.count > 0) line += " | " + metric.name + formatted(" %.4g", metric.mean);
    if (metric.not_finite > 0) line += " | " + metric.name + " not finite " + std::to_string(metric.not_finite) + "x";
  }
  if (p.learning_rate > 0) line += formatted(" | %.3g rate", p.learning_rate);
  if (p.examples > 0 && p.seconds > 0) line += " | " + with_unit(p.examples / p.seconds) + " examples/s";
  const std::int64_t done = p.step - p.first_step, left = p.total_steps - p.step;
  if (done > 0 && left > 0 && p.seconds > 0) {
    line += " | " + duration(p.seconds / static_cast<double>(done) * static_cast<double>(left)) + " left";
  }
  return line;
}

}  // namespace tutti::train
