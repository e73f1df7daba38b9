// Learning rates that change with the step: a plain value, and a pure function of the step.
//
//   // Eight times the batch: eight times the rate, reached after 500 steps, then down to a tenth by step 10000.
//   using namespace tutti::train;
//   const LearningRate rate{.peak = scaled_rate(1e-3, 8, ScalingRule::linear), .warmup_steps = 500,
//                           .warmup_from = 1.0 / 8, .decay = Decay::cosine, .total_steps = 10000, .final_share = 0.1};
//   update(optimizer, step, shard, 1, rate.at(step));
//
// The same bits on every machine: ranks of different makes come to the same rate.
#pragma once

#include <cstdint>

#include "tutti/export.h"

namespace tutti::train {

enum class Decay { none, linear, cosine };

// Shares are of the peak, 0 to 1.
struct LearningRate {
  double peak = 1e-3;             // what the warm-up ends with
  std::int64_t warmup_steps = 0;  // linear; step warmup_steps is the first at the peak
  double warmup_from = 0;         // the share that the warm-up begins with; step 1 is the first above it
  Decay decay = Decay::none;      // after the warm-up
  std::int64_t total_steps = 0;   // where the decay ends, more than warmup_steps; no matter where there is none
  double final_share = 0;         // what the decay ends with, and what stays afterwards

  // Of a step, counted from 1. Throws tutti::Error where the fields make no sense.
  TUTTI_API double at(std::int64_t step) const;
};

// What a batch of k times the size does to a rate that was found for the size of one: linear for SGD (Goyal et al.:
// with a warm-up, up to a batch of some thousands), square root for Adam and its kin.
enum class ScalingRule { none, linear, square_root };
TUTTI_API double scaled_rate(double rate, double k, ScalingRule rule);

}  // namespace tutti::train
