// Numbers of training over all ranks: count, mean, variance, extremes and histograms of any number of named values, in
// one all_reduce.
//
//   tutti::train::Metrics metrics({{"loss"}, {"norm", tutti::train::Bins{.low = 0, .high = 10, .count = 20}}});
//   metrics.add("loss", loss);                 // as often as there is one; ranks need not add equally many
//   for (const auto& metric : metrics.reduce(comm)) log(to_text(metric));     // all ranks call; the same on all
//   metrics.clear();
//
// Means and variances are merged by the formulas of Chan et al., which lose nothing to cancellation, in the canonical
// order of the communicator: the same values give the same bits. Values that are not finite are counted apart, so that
// one of them does not hide the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti::train {

// Equal bins from low to high. What is below or above is counted in the first or last one.
struct Bins {
  double low = 0, high = 1;
  std::size_t count = 10;
};

struct Metric {
  std::string name;
  std::optional<Bins> bins = {};

  // What was added.
  std::uint64_t count = 0;
  double mean = 0;
  double squares = 0;  // of differences from the mean, summed
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  std::uint64_t not_finite = 0;  // values that are in none of the others
  std::vector<std::uint64_t> histogram = {};

  double sum() const { return mean * static_cast<double>(count); }
  // Of the values as they are, and as a sample of others; 0 where there are too few.
  double variance() const { return count > 0 ? squares / static_cast<double>(count) : 0; }
  double sample_variance() const { return count > 1 ? squares / static_cast<double>(count - 1) : 0; }
};

// As "loss 0.3501 ± 0.021, 0.31 to 0.39, 4096 values".
TUTTI_API std::string to_text(const Metric& metric);

class Metrics {
 public:
  // Names, and bins where a histogram is wanted: the same on all ranks, in the same order.
  TUTTI_API explicit Metrics(std::vector<Metric> metrics);

  // A value that stands for `times` equal ones: the mean loss of a batch of 32 is worth 32.
  TUTTI_API void add(std::string_view name, double value, std::uint64_t times = 1);

  // What this rank has added.
  const std::vector<Metric>& own() const { return metrics_; }

  // What all ranks have added. Every rank calls it; own() stays as it is.
  TUTTI_API std::vector<Metric> reduce(Communicator& comm) const;

  TUTTI_API void clear();

 private:
  std::vector<Metric> metrics_;
};

}  // namespace tutti::train
