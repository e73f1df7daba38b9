// What the ranks exchange is an array of cells: one for the numbers of a metric, then one for every six of its bins.
#include "tutti/train/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <stdexcept>

#include "base/formatted.h"
#include "tutti/error.h"
#include "tutti/op.h"

namespace tutti::train {
namespace {

constexpr std::size_t kBinsPerCell = 6;

// All numbers in 64 bits, so that nothing in it is padding.
struct MetricCell {
  std::uint64_t what;  // which metric, and which part of it: the same on all ranks, or they mean different things
  union {
    struct {
      std::uint64_t count;
      double mean, squares, minimum, maximum;
      std::uint64_t not_finite;
    } numbers;
    std::uint64_t bins[kBinsPerCell];
  };
};

constexpr std::uint64_t kBinsBit = 1;

[[noreturn]] void refuse_metric(const std::string& why) { throw Error(ErrorCode::invalid_argument, "metrics: " + why); }

// FNV-1a of the name and the bins; the last bit is left for the part.
std::uint64_t label_of(const Metric& metric) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto take = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001B3; };
  for (const char c : metric.name) take(static_cast<unsigned char>(c));
  if (metric.bins.has_value()) {
    const Bins& bins = *metric.bins;
    for (const std::uint64_t word : {std::bit_cast<std::uint64_t>(bins.low), std::bit_cast<std::uint64_t>(bins.high),
                                     static_cast<std::uint64_t>(bins.count)}) {
      for (int shift = 0; shift < 64; shift += 8) take(word >> shift & 0xFF);
    }
  }
  return hash & ~kBinsBit;
}

// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances".
template <class To, class From>
void merge(To& to, const From& from) {
  to.not_finite += from.not_finite;
  if (from.count == 0) return;
  const double many = static_cast<double>(to.count), more = static_cast<double>(from.count), all = many + more;
  const double apart = from.mean - to.mean;
  // fma says where to round, so that ranks of different makes agree.
  to.squares += std::fma(apart * apart * (many / all), more, from.squares);
  to.mean = to.count == 0 ? from.mean : std::fma(apart, more / all, to.mean);
  to.count += from.count;
  to.minimum = std::min(to.minimum, from.minimum);
  to.maximum = std::max(to.maximum, from.maximum);
}

MetricCell join_cells(const MetricCell& left, const MetricCell& right) {
  if (left.what != right.what) {
    throw std::runtime_error(
        "ranks reduce different metrics; all must name the same ones, with the same bins, in order");
  }
  MetricCell joined = left;
  if ((left.what & kBinsBit) == 0) {
    merge(joined.numbers, right.numbers);
  } else {
    for (std::size_t i = 0; i < kBinsPerCell; ++i) joined.bins[i] += right.bins[i];
  }
  return joined;
}

std::vector<MetricCell> pack(std::span<const Metric> metrics) {
  std::vector<MetricCell> cells;
  for (const Metric& metric : metrics) {
    const std::uint64_t label = label_of(metric);
    MetricCell& first = cells.emplace_back(MetricCell{.what = label, .bins = {}});
    first.numbers = {metric.count, metric.mean, metric.squares, metric.minimum, metric.maximum, metric.not_finite};
    for (std::size_t bin = 0; bin < metric.histogram.size(); bin += kBinsPerCell) {
      MetricCell& cell = cells.emplace_back(MetricCell{.what = label | kBinsBit, .bins = {}});
      const std::size_t end = std::min(bin + kBinsPerCell, metric.histogram.size());
      std::copy(metric.histogram.begin() + bin, metric.histogram.begin() + end, cell.bins);
    }
  }
  return cells;
}

void unpack(std::span<const MetricCell> cells, std::span<Metric> metrics) {
  const MetricCell* cell = cells.data();
  for (Metric& metric : metrics) {
    const auto& numbers = cell++->numbers;
    metric.count = numbers.count;
    metric.mean = numbers.mean;
    metric.squares = numbers.squares;
    metric.minimum = numbers.minimum;
    metric.maximum = numbers.maximum;
    metric.not_finite = numbers.not_finite;
    for (std::size_t bin = 0; bin < metric.histogram.size(); bin += kBinsPerCell, ++cell) {
      const std::size_t many = std::min(kBinsPerCell, metric.histogram.size() - bin);
      std::copy(cell->bins, cell->bins + many, metric.histogram.begin() + bin);
    }
  }
}

std::size_t bin_of(const Bins& bins, double value) {
  const double place = (value - bins.low) / (bins.high - bins.low) * static_cast<double>(bins.count);
  if (!(place > 0)) return 0;
  return place >= static_cast<double>(bins.count) ? bins.count - 1 : static_cast<std::size_t>(place);
}

}  // namespace

Metrics::Metrics(std::vector<Metric> metrics) : metrics_(std::move(metrics)) {
  if (metrics_.empty()) refuse_metric("there is none");
  std::set<std::string> names;
  for (Metric& metric : metrics_) {
    if (!names.insert(metric.name).second) refuse_metric("two are named \"" + metric.name + "\"");
    if (!metric.bins.has_value()) continue;
    const Bins& bins = *metric.bins;
    if (!std::isfinite(bins.high - bins.low) || !(bins.low < bins.high) || bins.count == 0) {
      refuse_metric("the bins of \"" + metric.name + "\" must go from a lower to a higher number, and be at least one");
    }
  }
  clear();
}

void Metrics::add(std::string_view name, double value, std::uint64_t times) {
  const auto metric =
      std::find_if(metrics_.begin(), metrics_.end(), [&](const Metric& known) { return known.name == name; });
  if (metric == metrics_.end()) {
    std::string names;
    for (const Metric& known : metrics_) names += (names.empty() ? "\"" : ", \"") + known.name + "\"";
    refuse_metric("none is named \"" + std::string(name) + "\"; there are " + names);
  }
  if (!std::isfinite(value)) {
    metric->not_finite += times;
    return;
  }
  merge(*metric, Metric{.name = {}, .count = times, .mean = value, .minimum = value, .maximum = value});
  if (metric->bins.has_value()) metric->histogram[bin_of(*metric->bins, value)] += times;
}

std::vector<Metric> Metrics::reduce(Communicator& comm) const {
  std::vector<MetricCell> cells = pack(metrics_);
  comm.all_reduce(cells, Op::of<MetricCell>(join_cells, true, "metrics"));
  std::vector<Metric> all = metrics_;
  unpack(cells, all);
  return all;
}

void Metrics::clear() {
  for (Metric& metric : metrics_) {
    const std::size_t bins = metric.bins.has_value() ? metric.bins->count : 0;
    metric = {.name = metric.name, .bins = metric.bins, .histogram = std::vector<std::uint64_t>(bins)};
  }
}

std::string to_text(const Metric& metric) {
  std::string words = metric.name;
  if (metric.count == 0) {
    words += " no values";
  } else {
    words +=
        formatted(" %.4g ± %.2g, %.4g to %.4g, %llu value%s", metric.mean, std::sqrt(metric.variance()), metric.minimum,
                  metric.maximum, static_cast<unsigned long long>(metric.count), metric.count == 1 ? "" : "s");
  }
  if (metric.not_finite > 0) words += ", " + std::to_string(metric.not_finite) + " not finite";
  return words;
}

}  // namespace tutti::train
