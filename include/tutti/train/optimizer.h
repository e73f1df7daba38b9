// Optimizers over arrays: one step over what a rank owns, in one pass over memory.
//
//   tutti::train::Optimizer optimizer = tutti::train::AdamW{.learning_rate = 3e-4};
//   std::vector<float> m(n), v(n);  // state_arrays(optimizer) arrays of zeros
//   tutti::train::update(optimizer, step,
//                        {.count = n, .master = weights, .gradient = gradient, .states = {m.data(), v.data()}});
//
// Each element is updated by itself, by operations that are rounded one by one: the same bits come out on every
// machine, and however parameters are cut into shards. So ZeRO trains to the same bits as data parallel. Any thread, at
// any time, as long as no two update the same elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti::train {

// What an optimizer keeps of a number between steps. eight_bits: floats of 8 bits in blocks of kStateBlock numbers that
// share a scale (Dettmers et al., 8-bit optimizers), 1.02 bytes instead of 4, rounded by chance, so that variances of
// which a step changes a thousandth still follow. What chance decides depends on the step and the place in a parameter
// alone: the same bits come out on every machine, and however parameters are cut, as long as no block is.
enum class StateType : unsigned char { float32, eight_bits };
inline constexpr std::size_t kStateBlock = 256;

// The formulas and defaults are those of torch.optim. Rates and decays are at least 0, betas and momentum in [0, 1).

struct AdamW {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
  StateType state = StateType::float32;
};

// weight_decay is L2: a part of the gradient.
struct Adam {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  StateType state = StateType::float32;
};

// weight_decay is L2. nesterov needs a momentum.
struct Sgd {
  double learning_rate = 1e-2, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// Chen et al., "Symbolic Discovery of Optimization Algorithms". weight_decay is decoupled, as that of AdamW.
struct Lion {
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

using Optimizer = std::variant<AdamW, Adam, Sgd, Lion>;

// How many arrays, each as long as the parameters, it keeps between steps: 2 for AdamW and Adam, 1 for Lion and for Sgd
// with momentum, else 0. What they consist of, and the bytes of one for so many numbers.
TUTTI_API int state_arrays(const Optimizer& optimizer);
TUTTI_API StateType state_type(const Optimizer& optimizer);
TUTTI_API std::size_t state_bytes(const Optimizer& optimizer, std::size_t count);

// The learning rate that the optimizer holds, which schedules scale.
TUTTI_API double learning_rate_of(const Optimizer& optimizer);

// What one rank owns of the parameters. All arrays have `count` elements, aligned to one element, and do not overlap;
// only `values` may be `master`.
struct Shard {
  std::size_t count = 0;
  float* master = nullptr;  // the values in float32, updated
  const void* gradient = nullptr;
  DType gradient_type = DType::float32;  // or bfloat16, float16
  float* states[2] = {};                 // as many as state_arrays() says; zero before the first step
  std::byte* codes[2] = {};              // in their place with eight_bits: state_bytes() each; zero, too
  // With eight_bits: where the first element lies in its parameter, a multiple of kStateBlock.
  std::size_t first = 0;
  void* values = nullptr;              // gets the new values, rounded to nearest even; nullptr: no such copy
  DType values_type = DType::float32;  // or bfloat16, float16
};

// Steps count from 1. Gradients are multiplied by gradient_scale first: the inverse of the loss scale, times the factor
// of clipping. learning_rate comes from a schedule (train/learning_rate.h); that of the optimizer unless given.
// Throws tutti::Error before anything is written.
TUTTI_API void update(const Optimizer& optimizer, std::int64_t step, const Shard& shard, double gradient_scale = 1,
                      std::optional<double> learning_rate = {});

}  // namespace tutti::train
