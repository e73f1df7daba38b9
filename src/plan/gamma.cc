#include "plan/gamma.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/formatted.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

constexpr double kFlopsPerParameter = 6, kBackwardShare = 4.0 / 6;

GammaRow gamma_row(const GammaSettings& settings, double workers, double local_batch, double parameters) {
  GammaRow row{workers, local_batch, parameters};
  row.compute_s = kFlopsPerParameter * parameters * local_batch * settings.tokens_per_example / settings.flops_per_s;
  const double bandwidth_s =
      2 * (workers - 1) / workers * settings.bytes_per_parameter * parameters / settings.bytes_per_s;
  const double latency_s = 2 * (workers - 1) * settings.latency_s;
  row.all_reduce_s = bandwidth_s + latency_s;
  // What comes every so many steps has the backward of one of them to hide behind.
  const double left_s = bandwidth_s / settings.compress + latency_s;
  row.exposed_s = std::max(0.0, left_s - settings.overlap * kBackwardShare * row.compute_s) / settings.every;
  return row;
}

// The positive K with a K^2 + b K = c, of which a >= 0 and c > 0; none where there is none.
std::optional<double> positive_root(double a, double b, double c) {
  if (a == 0) return b > 0 ? std::optional(c / b) : std::nullopt;
  const double half = b / (2 * a), other = std::sqrt(c / a);
  // In the form that does not cancel where b is far larger than a.
  const double root = std::hypot(half, other);
  return half >= 0 ? other * (other / (half + root)) : root - half;
}

}  // namespace

GammaRow strong_scaling(const GammaSettings& settings, double workers) {
  return gamma_row(settings, workers, settings.global_batch / workers, settings.parameters);
}

GammaRow weak_scaling(const GammaSettings& settings, double workers) {
  return gamma_row(settings, workers, settings.local_batch, settings.parameters);
}

GammaRow model_of(const GammaSettings& settings, double workers, double parameters) {
  return gamma_row(settings, workers, settings.local_batch, parameters);
}

// With S = 2 g P / B and C = 6 P G t / R: S (K - 1) / K + 2 alpha (K - 1) = C / K.
std::optional<double> break_even_strong(const GammaSettings& settings) {
  const double sent = 2 * settings.bytes_per_parameter * settings.parameters / settings.bytes_per_s;
  const double computed = kFlopsPerParameter * settings.parameters * settings.global_batch *
                          settings.tokens_per_example / settings.flops_per_s;
  const double round = 2 * settings.latency_s;
  return positive_root(round, sent - round, sent + computed);
}

// With C = 6 P b t / R: S (K - 1) / K + 2 alpha (K - 1) = C.
std::optional<double> break_even_weak(const GammaSettings& settings) {
  const double sent = 2 * settings.bytes_per_parameter * settings.parameters / settings.bytes_per_s;
  const double computed = kFlopsPerParameter * settings.parameters * settings.local_batch *
                          settings.tokens_per_example / settings.flops_per_s;
  const double round = 2 * settings.latency_s;
  return positive_root(round, sent - round - computed, sent);
}

double parameters_where_latency_is(const GammaSettings& settings, double workers, double share) {
  return (1 - share) / share * workers * settings.latency_s * settings.bytes_per_s / settings.bytes_per_parameter;
}

void require_possible(const GammaSettings& settings) {
  const auto refuse = [](const char* setting, double value, const char* remedy) {
    throw Error(ErrorCode::invalid_argument, formatted("--%s is %g; %s", setting, value, remedy));
  };
  const struct {
    const char* name;
    double value;
  } positive[] = {{"params", settings.parameters},
                  {"global-batch", settings.global_batch},
                  {"local-batch", settings.local_batch},
                  {"tokens-per-example", settings.tokens_per_example},
                  {"flops", settings.flops_per_s},
                  {"bandwidth", settings.bytes_per_s},
                  {"grad-bytes", settings.bytes_per_parameter}};
  // So that what is made of several of them is a number yet.
  constexpr double kMost = 1e30, kLeast = 1e-30;
  const auto is_possible = [](double value) { return value >= kLeast && value <= kMost; };
  for (const auto& [name, value] : positive)
    if (!is_possible(value))
      refuse(name, value, value > 0 ? "give a number from 1e-30 up to 1e30" : "give a number above 0");
  if (settings.latency_s != 0 && !is_possible(settings.latency_s))
    refuse("latency", settings.latency_s * 1e6, "give microseconds: 0, or from 1e-24 up to 1e30");
  if (!(settings.overlap >= 0 && settings.overlap <= 1))
    refuse("overlap", settings.overlap, "give a share of backward, from 0 to 1");
  if (!(settings.compress >= 1 && settings.compress <= kMost))
    refuse("compress", settings.compress, "bytes go over so many: from 1 up to 1e30");
  if (!(settings.every >= 1 && settings.every <= kMost))
    refuse("every", settings.every, "an all-reduce comes every so many steps: from 1 up to 1e30");
}

}  // namespace tutti::plan
