// The two halves of a step of AdamW whose variances stay as they are, so that something may happen to where it points
// in between: kernels/optimizers.h has the formulas, optimizer.cc the code.
#pragma once

#include <cstdint>
#include <optional>

#include "tutti/train/optimizer.h"

namespace tutti::train {

// AdamW, or Adam without a weight decay, which is the same. Others: Error(invalid_argument).
void check_can_freeze(const Optimizer& optimizer);

// Since when: how many updates variances have seen. From then on beta1 is at most so large.
struct Frozen {
  std::int64_t variances = 1;
  double most_beta1 = 1;
};

// Where the momentum that the shard's gradient leads to points, in units of the deviation. `directions` has as many
// numbers as the shard.
void find_directions(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double gradient_scale,
                     float* directions);
// The shard's gradient in units of the deviation, without momentum; such ones as the gradient that they are; and, times
// `clip`, with the momentum that they lead to, where it points.
void divide_by_deviation(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double gradient_scale,
                         float* divided);
void multiply_by_deviation(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, const float* divided,
                           float* gradient);
void add_momentum(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double clip, float* divided);
// One update along directions, which are the shard's gradient, in float32.
void follow_directions(const Optimizer& optimizer, std::int64_t step, const Frozen& frozen, const Shard& shard,
                       std::optional<double> learning_rate);

}  // namespace tutti::train
