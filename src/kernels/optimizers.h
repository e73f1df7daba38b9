// One step of an optimizer over arrays, element by element in one pass.
//
// Invariant: as in kernels.h, the same bits come out on every instruction set and however arrays are cut. Every
// multiplication, addition, division and square root is rounded on its own; a NaN is stored as the canonical one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/types.h"

namespace tutti::kernels {

// sgd is without momentum, nesterov with it.
//
// Of AdamW whose variance (states[1]) is frozen there are two halves. adamw_direction puts into `master` where the new
// momentum points, in units of the deviation, and changes no state; a direction is no longer than AdamW's can be,
// max(1, (1 - beta1) / sqrt(1 - beta2)), and 0 where the variance is. adamw_follow takes a direction as its gradient,
// moves the master along it and makes the momentum of it.
enum class OptimizerRule { adamw, adam, sgd, momentum, nesterov, lion, adamw_direction, adamw_follow };

// Numbers of one step. Rules take those they know; momentum is beta1. What follows from them is computed in float64 and
// rounded to float32 once.
struct OptimizerStep {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;   // gradients are multiplied by it first
  std::int64_t number = 1;     // counts from 1
  std::int64_t variances = 1;  // that a frozen variance has seen: what it is corrected by
  double beta1_before = 0;     // beta1 until it was frozen; what momentum is corrected by has both
};

// All of them hold `count` elements. Rules without a state leave it alone; a rule with one uses states[0].
struct OptimizerArrays {
  float* master = nullptr;
  const void* gradient = nullptr;
  float* states[2] = {};
  void* values = nullptr;
};

using OptimizerFunction = void (*)(const OptimizerStep& step, const OptimizerArrays& arrays, std::size_t count);

// gradient: float32, bfloat16 or float16. values: bfloat16 or float16 for a rounded copy of the new master, float32 for
// none. nullptr for other types.
OptimizerFunction find_optimizer(OptimizerRule rule, DType gradient, DType values);

}  // namespace tutti::kernels
