// The gradient noise scale: up to which batch more examples in a step make up for fewer steps.
//
//   tutti::train::NoiseScale noise;
//   // In data parallel both norms are at hand: of a rank's own gradient, averaged over ranks, and of their mean.
//   noise.add({.small_batch = 32, .small_squares = own, .large_batch = 256, .large_squares = averaged});
//   if (comm.rank() == 0) log(noise.to_text(256));
//
// After McCandlish et al., "An Empirical Model of Large-Batch Training". The gradient of B examples is the true one, of
// squared norm |G|^2 (the signal), and noise of squared norm tr(Sigma) / B. So two sizes of batch tell both, and the
// scale is tr(Sigma) / |G|^2, in examples. A batch as large as that needs twice the fewest steps, and twice the fewest
// examples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/export.h"

namespace tutti::train {

// Squared norms of gradients that are means over so many examples.
struct NoiseSample {
  double small_batch = 0, small_squares = 0;
  double large_batch = 0, large_squares = 0;
};

// What one sample says, without bias but of wide spread: the signal may come out negative.
struct NoiseEstimate {
  double signal = 0;  // |G|^2
  double noise = 0;   // tr(Sigma), of one example
};
TUTTI_API NoiseEstimate estimate_noise(const NoiseSample& sample);

// Against the batch it is asked for, k times as many ranks with the same share each need `steps` times the steps and
// `examples` times the examples to come as far.
struct MoreRanks {
  double steps = 1, examples = 1;
};
TUTTI_API MoreRanks with_more_ranks(double scale, double batch, double k);

// Averages signal and noise, each by itself, with weights that fade exponentially.
class NoiseScale {
 public:
  // How much of the average stays in each step: 0.99 looks back about 100 steps. 0 <= memory < 1.
  TUTTI_API explicit NoiseScale(double memory = 0.99);

  TUTTI_API void add(const NoiseSample& sample);

  std::int64_t samples() const { return samples_; }
  // Nothing before the first sample.
  TUTTI_API std::optional<NoiseEstimate> average() const;
  // In examples. Nothing where the averages do not tell: no sample yet, or no signal above the noise.
  TUTTI_API std::optional<double> scale() const;
  // A sentence about this batch, of all ranks, and what twice the ranks would bring.
  TUTTI_API std::string to_text(double batch) const;

 private:
  double memory_;
  double weight_ = 0;  // of all samples so far; tends to one
  NoiseEstimate sum_;
  std::int64_t samples_ = 0;
};

}  // namespace tutti::train
