#include "tutti/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "base/formatted.h"
#include "base/mix.h"
#include "kernels/optimizers.h"
#include "kernels/quantise.h"
#include "train/float_arrays.h"
#include "train/frozen_adam.h"
#include "train/row_update.h"
#include "train/state_codes.h"
#include "tutti/error.h"

namespace tutti::train {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "optimizer update: " + why);
}

// What the kernels want to know.
struct OptimizerNumbers {
  std::string_view name;
  kernels::OptimizerRule rule;
  int states;
  kernels::OptimizerStep step;
  StateType type = StateType::float32;
};

// Of moment estimates; variances are not negative.
constexpr kernels::CodeFormat kStateFormats[] = {{kernels::CodeType::m8, kStateBlock},
                                                 {kernels::CodeType::v8, kStateBlock}};
static_assert(kTile % kStateBlock == 0);

OptimizerNumbers numbers_of(const AdamW& o) {
  const kernels::OptimizerStep step{o.learning_rate, o.beta1, o.beta2, o.epsilon, o.weight_decay};
  return {"AdamW", kernels::OptimizerRule::adamw, 2, step, o.state};
}
OptimizerNumbers numbers_of(const Adam& o) {
  const kernels::OptimizerStep step{o.learning_rate, o.beta1, o.beta2, o.epsilon, o.weight_decay};
  return {"Adam", kernels::OptimizerRule::adam, 2, step, o.state};
}
OptimizerNumbers numbers_of(const Sgd& o) {
  using kernels::OptimizerRule;
  if (o.nesterov && o.momentum == 0) refuse("Sgd with nesterov needs a momentum, such as 0.9");
  const OptimizerRule with = o.nesterov ? OptimizerRule::nesterov : OptimizerRule::momentum;
  const bool plain = o.momentum == 0;
  return {"Sgd", plain ? OptimizerRule::sgd : with, plain ? 0 : 1, {o.learning_rate, o.momentum, 0, 0, o.weight_decay}};
}
OptimizerNumbers numbers_of(const Lion& o) {
  return {"Lion", kernels::OptimizerRule::lion, 1, {o.learning_rate, o.beta1, o.beta2, 0, o.weight_decay}};
}

OptimizerNumbers numbers_of(const Optimizer& optimizer) {
  return std::visit([](const auto& one) { return numbers_of(one); }, optimizer);
}

void check_numbers(std::string_view name, const kernels::OptimizerStep& step) {
  const auto check = [&](bool good, const char* what, double given, const char* wanted) {
    if (!good)
      refuse(std::string(name) + " has a " + what + " of " + formatted("%g", given) + "; it must be " + wanted);
  };
  const auto is_rate = [](double x) { return std::isfinite(x) && x >= 0; };
  const auto is_beta = [](double x) { return x >= 0 && x < 1; };
  check(is_rate(step.learning_rate), "learning rate", step.learning_rate, "a finite number of at least 0");
  check(is_rate(step.weight_decay), "weight decay", step.weight_decay, "a finite number of at least 0");
  check(is_rate(step.epsilon), "epsilon", step.epsilon, "a finite number of at least 0");
  check(is_beta(step.beta1), name == "Sgd" ? "momentum" : "beta1", step.beta1, "at least 0 and less than 1");
  check(is_beta(step.beta2), "beta2", step.beta2, "at least 0 and less than 1");
  if (step.number < 1) refuse("step " + std::to_string(step.number) + "; steps count from 1");
  if (!std::isfinite(step.gradient_scale)) {
    refuse("a gradient_scale of " + formatted("%g", step.gradient_scale) + " would spoil all values; skip such a step");
  }
}

void check_arrays(const Shard& shard, const OptimizerNumbers& numbers) {
  if (shard.count == 0) return;
  if (shard.master == nullptr) refuse("master is nullptr");
  if (shard.gradient == nullptr) refuse("gradient is nullptr");
  const bool coded = numbers.type == StateType::eight_bits;
  if (coded && shard.first % kStateBlock != 0) {
    refuse("a shard begins at element " + std::to_string(shard.first) +
           " of its parameter; states of 8 bits are cut at "
           "multiples of " +
           std::to_string(kStateBlock));
  }
  for (int i = 0; i < numbers.states; ++i) {
    if (coded ? shard.codes[i] != nullptr : shard.states[i] != nullptr) continue;
    refuse((coded ? "codes[" : "states[") + std::to_string(i) + "] is nullptr; " + std::string(numbers.name) +
           " keeps " + std::to_string(numbers.states) + " arrays of state");
  }
}

}  // namespace

int state_arrays(const Optimizer& optimizer) { return numbers_of(optimizer).states; }
StateType state_type(const Optimizer& optimizer) { return numbers_of(optimizer).type; }
std::size_t state_bytes(const Optimizer& optimizer, std::size_t count) {
  return state_type(optimizer) == StateType::float32 ? count * sizeof(float)
                                                     : kernels::code_bytes(kStateFormats[0], count);
}

void decode_state(int state, const std::byte* codes, std::size_t count, float* values) {
  kernels::dequantise(kStateFormats[state], codes, count, values);
}

void encode_state(int state, const float* values, std::size_t count, std::byte* codes) {
  kernels::quantise(kStateFormats[state], values, count, codes);
}

double learning_rate_of(const Optimizer& optimizer) {
  return std::visit([](const auto& one) { return one.learning_rate; }, optimizer);
}

namespace {

// One step of a rule over a shard, tile by tile where a copy in float32 is made: while the tile is in the first cache.
void run_rule(const OptimizerNumbers& numbers, const Shard& shard) {
  check_numbers(numbers.name, numbers.step);
  check_arrays(shard, numbers);
  const DType copied = shard.values == nullptr ? DType::float32 : shard.values_type;
  const kernels::OptimizerFunction run = kernels::find_optimizer(numbers.rule, shard.gradient_type, copied);
  if (run == nullptr) {
    refuse("gradients in " + std::string(name_of(shard.gradient_type)) + " and values in " +
           std::string(name_of(copied)) + "; each must be float32, bfloat16 or float16");
  }
  const bool copies = copied == DType::float32 && shard.values != nullptr && shard.values != shard.master;
  const bool coded = numbers.type == StateType::eight_bits;
  alignas(64) float decoded[2][kTile];
  const std::size_t tile = coded ? kTile : copies ? 2048 : shard.count;
  const auto* const gradient = static_cast<const std::byte*>(shard.gradient);
  for (std::size_t begin = 0; begin < shard.count; begin += tile) {
    const std::size_t count = std::min(tile, shard.count - begin);
    kernels::OptimizerArrays arrays{.master = shard.master + begin,
                                    .gradient = gradient + begin * size_of(shard.gradient_type),
                                    .values = static_cast<std::byte*>(shard.values)};
    if (copied != DType::float32) arrays.values = static_cast<std::byte*>(shard.values) + begin * size_of(copied);
    for (int i = 0; i < numbers.states; ++i) arrays.states[i] = coded ? decoded[i] : shard.states[i] + begin;
    for (int i = 0; coded && i < numbers.states; ++i)
      decode_state(i, shard.codes[i] + kernels::code_bytes(kStateFormats[i], begin), count, decoded[i]);
    run(numbers.step, arrays, count);
    for (int i = 0; coded && i < numbers.states; ++i) {
      const std::uint64_t seed = mix(static_cast<std::uint64_t>(numbers.step.number), static_cast<std::uint64_t>(i));
      kernels::quantise(kStateFormats[i], decoded[i], count,
                        shard.codes[i] + kernels::code_bytes(kStateFormats[i], begin),
                        {.stochastic = true, .seed = seed, .first = shard.first + begin});
    }
    if (copies) std::memcpy(static_cast<float*>(shard.values) + begin, arrays.master, count * sizeof(float));
  }
}

}  // namespace

void update(const Optimizer& optimizer, std::int64_t step, const Shard& shard, double gradient_scale,
            std::optional<double> learning_rate) {
  OptimizerNumbers numbers = numbers_of(optimizer);
  numbers.step.number = step;
  numbers.step.gradient_scale = gradient_scale;
  if (learning_rate.has_value()) numbers.step.learning_rate = *learning_rate;
  run_rule(numbers, shard);
}

void update_rows(const Optimizer& optimizer, std::int64_t step, const TableArrays& table,
                 std::span<const std::int64_t> rows, const float* gradient, double gradient_scale) {
  OptimizerNumbers numbers = numbers_of(optimizer);
  numbers.step.number = step;
  numbers.step.gradient_scale = gradient_scale;
  check_numbers(numbers.name, numbers.step);
  const kernels::OptimizerFunction run = kernels::find_optimizer(numbers.rule, DType::float32, DType::float32);
  constexpr std::size_t kAhead = 8;  // rows lie anywhere: they are asked for before they are needed
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    for (std::size_t ahead = i + kAhead; ahead < std::min(rows.size(), end + kAhead); ++ahead)
      __builtin_prefetch(table.master + static_cast<std::size_t>(rows[ahead]) * table.width, 1);
    const std::size_t first = static_cast<std::size_t>(rows[i]) * table.width;
    kernels::OptimizerArrays arrays{.master = table.master + first, .gradient = gradient + i * table.width};
    for (int state = 0; state < numbers.states; ++state) arrays.states[state] = table.states[state] + first;
    run(numbers.step, arrays, (end - i) * table.width);
    i = end;
  }
}

void check_can_freeze(const Optimizer& optimizer) {
  const Adam* adam = std::get_if<Adam>(&optimizer);
  if (std::holds_alternative<AdamW>(optimizer) || (adam != nullptr && adam->weight_decay == 0)) return;
  const std::string name(numbers_of(optimizer).name);
  refuse(name + (adam != nullptr ? " with a weight decay" : "") +
         " has no variance to freeze apart from values; train by AdamW where momentum travels as signs");
}

namespace {

OptimizerNumbers frozen_numbers_of(const Optimizer& optimizer, const Frozen& frozen, kernels::OptimizerRule rule) {
  OptimizerNumbers numbers = numbers_of(optimizer);
  numbers.rule = rule;
  numbers.step.variances = frozen.variances;
  numbers.step.beta1_before = numbers.step.beta1;
  numbers.step.beta1 = std::min(numbers.step.beta1, frozen.most_beta1);
  return numbers;
}

}  // namespace

void find_directions(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double gradient_scale,
                     float* directions) {
  OptimizerNumbers numbers = frozen_numbers_of(optimizer, frozen, kernels::OptimizerRule::adamw_direction);
  numbers.step.gradient_scale = gradient_scale;
  Shard directed = shard;
  directed.master = directions;
  directed.values = nullptr;
  run_rule(numbers, directed);
}

void divide_by_deviation(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double gradient_scale,
                         float* divided) {
  // Directions without a momentum.
  find_directions(optimizer, {.variances = frozen.variances, .most_beta1 = 0}, shard, gradient_scale, divided);
}

void multiply_by_deviation(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, const float* divided,
                           float* gradient) {
  alignas(64) float unmoved[kTile] = {};
  for_tiles(shard.count, [&](std::size_t begin, std::size_t count) {
    // The momentum that a step along them leaves, of a rate of 0.
    const Shard tile{.count = count,
                     .master = unmoved,
                     .gradient = divided + begin,
                     .states = {gradient + begin, shard.states[1] + begin}};
    follow_directions(optimizer, frozen.variances, frozen, tile, 0);
  });
}

void add_momentum(const Optimizer& optimizer, const Frozen& frozen, const Shard& shard, double clip, float* divided) {
  const double beta1 = std::min(numbers_of(optimizer).step.beta1, frozen.most_beta1);
  alignas(64) float decayed[kTile];
  for_tiles(shard.count, [&](std::size_t begin, std::size_t count) {
    const Shard tile{.count = count,
                     .gradient = divided + begin,  // times 0
                     .states = {shard.states[0] + begin, shard.states[1] + begin}};
    find_directions(optimizer, frozen, tile, 0, decayed);
    scale_floats(divided + begin, count, clip * (1 - beta1));
    add_floats(divided + begin, decayed, count);
  });
}

void follow_directions(const Optimizer& optimizer, std::int64_t step, const Frozen& frozen, const Shard& shard,
                       std::optional<double> learning_rate) {
  OptimizerNumbers numbers = frozen_numbers_of(optimizer, frozen, kernels::OptimizerRule::adamw_follow);
  numbers.step.number = step;
  if (learning_rate.has_value()) numbers.step.learning_rate = *learning_rate;
  run_rule(numbers, shard);
}

}  // namespace tutti::train
