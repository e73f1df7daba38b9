// The two halves of a step of AdamW whose variances stay as they are, so that something may happen to where it points
// in between: kernels/optimizers.h has the formulas, optimizer.cc the code.
#pragma once

#include <cstdint>
#include <optional>

#include "tutti/train/optimizer.h"

namespace tutti::train {

// AdamW, or Adam without a weight decay, which is the same. Others: Error(invalid_argument).
void check_can_freeze(const Optimizer& optimizer);

// Where the momentum that the shard's gradient leads to points, in units of the deviation. `variances`: updates that
// its variance has seen. `directions` has as many numbers as the shard.
void find_directions(const Optimizer& optimizer, std::int64_t variances, const Shard& shard, double gradient_scale,
                     float* directions);
// One update along directions, which are the shard's gradient, in float32.
void follow_directions(const Optimizer& optimizer, std::int64_t step, std::int64_t variances, const Shard& shard,
                       std::optional<double> learning_rate);

}  // namespace tutti::train
