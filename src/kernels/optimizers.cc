// The rules of optimizers.h. Formulas are those of torch.optim, and of Chen et al. for Lion.
#include "kernels/optimizers.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizers.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

using Lanes = hn::Vec<F32>;

HWY_INLINE Lanes times(Lanes v, float factor) { return hn::Mul(v, hn::Set(F32(), factor)); }

// By squaring, because pow of another C library may differ in the last bit.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) result *= base;
  }
  return result;
}

// A rule changes x: the master value and then kStates states.

// kDecoupled: weights decay by themselves (AdamW) instead of in the gradient (Adam).
template <bool kDecoupled>
struct AdamRule {
  static constexpr std::size_t kStates = 2;
  float keep, decay, beta1, rest1, beta2, rest2, root_scale, epsilon, rate;

  explicit AdamRule(const OptimizerStep& step)
      : keep(static_cast<float>(1 - step.learning_rate * step.weight_decay)),
        decay(static_cast<float>(step.weight_decay)),
        beta1(static_cast<float>(step.beta1)),
        rest1(static_cast<float>(1 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        rest2(static_cast<float>(1 - step.beta2)),
        root_scale(static_cast<float>(1 / std::sqrt(1 - power(step.beta2, step.number)))),
        epsilon(static_cast<float>(step.epsilon)),
        rate(static_cast<float>(step.learning_rate / (1 - power(step.beta1, step.number)))) {}

  HWY_INLINE void apply(Lanes* x, Lanes gradient) const {
    if constexpr (kDecoupled) {
      x[0] = times(x[0], keep);
    } else {
      gradient = hn::Add(gradient, times(x[0], decay));
    }
    x[1] = hn::Add(times(x[1], beta1), times(gradient, rest1));
    x[2] = hn::Add(times(x[2], beta2), hn::Mul(times(gradient, rest2), gradient));
    const Lanes divisor = hn::Add(times(hn::Sqrt(x[2]), root_scale), hn::Set(F32(), epsilon));
    x[0] = hn::Sub(x[0], hn::Div(times(x[1], rate), divisor));
  }
};

struct FrozenAdamRule {
  static constexpr std::size_t kStates = 2;
  float keep, beta1, rest1, root_scale, epsilon, rate, most;

  explicit FrozenAdamRule(const OptimizerStep& step)
      : keep(static_cast<float>(1 - step.learning_rate * step.weight_decay)),
        beta1(static_cast<float>(step.beta1)),
        rest1(static_cast<float>(1 - step.beta1)),
        root_scale(static_cast<float>(1 / std::sqrt(1 - power(step.beta2, step.variances)))),
        epsilon(static_cast<float>(step.epsilon)),
        rate(static_cast<float>(step.learning_rate / (1 - missing(step)))),
        most(static_cast<float>(std::max(1.0, (1 - step.beta1) / std::sqrt(1 - step.beta2)))) {}

  // What the weights of all gradients in a momentum lack to be 1.
  static double missing(const OptimizerStep& step) {
    return power(step.beta1_before, step.variances) * power(step.beta1, step.number - step.variances);
  }
  HWY_INLINE Lanes deviation(const Lanes* x) const {
    return hn::Add(times(hn::Sqrt(x[2]), root_scale), hn::Set(F32(), epsilon));
  }
  // What never had a gradient says nothing of how large its steps should be.
  static HWY_INLINE Lanes where_known(const Lanes* x, Lanes v) {
    return hn::IfThenElse(hn::Eq(x[2], hn::Zero(F32())), hn::Zero(F32()), v);
  }
};

struct DirectionRule : FrozenAdamRule {
  using FrozenAdamRule::FrozenAdamRule;

  HWY_INLINE void apply(Lanes* x, Lanes gradient) const {
    const Lanes momentum = hn::Add(times(x[1], beta1), times(gradient, rest1));
    const Lanes exact = hn::Div(momentum, deviation(x)), length = hn::Abs(exact);
    const auto is_long = hn::Gt(length, hn::Set(F32(), most));
    const Lanes bounded = hn::IfThenElse(is_long, hn::CopySign(hn::Set(F32(), most), exact), exact);
    const auto is_number = hn::Lt(hn::Abs(momentum), hn::Inf(F32()));  // what is not finite stays so
    x[0] = hn::IfThenElse(is_number, where_known(x, bounded), momentum);
  }
};

struct FollowRule : FrozenAdamRule {
  using FrozenAdamRule::FrozenAdamRule;

  HWY_INLINE void apply(Lanes* x, Lanes direction) const {
    const Lanes known = where_known(x, direction);
    x[0] = hn::Sub(times(x[0], keep), times(known, rate));
    x[1] = hn::Mul(known, deviation(x));
  }
};

struct SgdRule {
  static constexpr std::size_t kStates = 0;
  float decay, rate;

  explicit SgdRule(const OptimizerStep& step)
      : decay(static_cast<float>(step.weight_decay)), rate(static_cast<float>(step.learning_rate)) {}

  HWY_INLINE void apply(Lanes* x, Lanes gradient) const {
    x[0] = hn::Sub(x[0], times(hn::Add(gradient, times(x[0], decay)), rate));
  }
};

template <bool kNesterov>
struct MomentumRule {
  static constexpr std::size_t kStates = 1;
  float decay, momentum, rate;

  explicit MomentumRule(const OptimizerStep& step)
      : decay(static_cast<float>(step.weight_decay)),
        momentum(static_cast<float>(step.beta1)),
        rate(static_cast<float>(step.learning_rate)) {}

  HWY_INLINE void apply(Lanes* x, Lanes gradient) const {
    gradient = hn::Add(gradient, times(x[0], decay));
    x[1] = hn::Add(times(x[1], momentum), gradient);
    const Lanes direction = kNesterov ? hn::Add(gradient, times(x[1], momentum)) : x[1];
    x[0] = hn::Sub(x[0], times(direction, rate));
  }
};

struct LionRule {
  static constexpr std::size_t kStates = 1;
  float keep, beta1, rest1, beta2, rest2, rate;

  explicit LionRule(const OptimizerStep& step)
      : keep(static_cast<float>(1 - step.learning_rate * step.weight_decay)),
        beta1(static_cast<float>(step.beta1)),
        rest1(static_cast<float>(1 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        rest2(static_cast<float>(1 - step.beta2)),
        rate(static_cast<float>(step.learning_rate)) {}

  HWY_INLINE void apply(Lanes* x, Lanes gradient) const {
    const Lanes direction = hn::Add(times(x[1], beta1), times(gradient, rest1));
    // Zero and NaN have no sign, and stand for themselves.
    const auto has_sign = hn::Gt(hn::Abs(direction), hn::Zero(F32()));
    const Lanes move = hn::IfThenElse(has_sign, hn::CopySign(hn::Set(F32(), rate), direction), direction);
    x[0] = hn::Sub(times(x[0], keep), move);
    x[1] = hn::Add(times(x[1], beta2), times(gradient, rest2));
  }
};

struct NoValues {
  static constexpr std::size_t kElementBytes = 0;
};

// Loads x (see above) and the gradient of one or several blocks, applies the rule, stores x and the rounded copy.
template <class Rule, class Gradient, class Values>
struct OptimizerBody {
  static constexpr std::size_t kBlock = kLanes<F32>;
  static constexpr std::size_t kUnroll = 2;
  static constexpr std::size_t kArrays = 1 + Rule::kStates;
  using Plain = Native<float>;

  std::byte* changed[3];
  const std::byte* gradient;
  std::byte* values;
  float gradient_scale;
  Rule rule;

  // Across the ends of pages, where what the processor fetches by itself stops: a sixth more bytes per second.
  template <std::size_t kElementBytes>
  static HWY_INLINE void fetch_ahead(const std::byte* array, std::size_t element) {
    constexpr std::size_t kLine = 64, kAhead = 1024;
    const std::byte* const from = array + element * kElementBytes + kAhead;
    for (std::size_t at = 0; at < kUnroll * kBlock * kElementBytes; at += kLine) hwy::Prefetch(from + at);
  }
  template <std::size_t kCount>
  HWY_INLINE void blocks(std::size_t first) const {
    Lanes x[kCount * kArrays];
    if constexpr (kCount > 1) {
      for (std::size_t a = 0; a < kArrays; ++a) fetch_ahead<sizeof(float)>(changed[a], first);
      fetch_ahead<Gradient::kElementBytes>(gradient, first);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t element = first + i * kBlock;
      for (std::size_t a = 0; a < kArrays; ++a) x[i * kArrays + a] = Plain::load(changed[a] + element * sizeof(float));
      const Lanes scaled = times(Gradient::load(gradient + element * Gradient::kElementBytes), gradient_scale);
      rule.apply(x + i * kArrays, scaled);
    }
    canonicalise_all<Plain>(x);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t element = first + i * kBlock;
      for (std::size_t a = 0; a < kArrays; ++a) Plain::store(x[i * kArrays + a], changed[a] + element * sizeof(float));
      if constexpr (Values::kElementBytes > 0) {
        Values::store(Values::pack(x[i * kArrays]), values + element * Values::kElementBytes);
      }
    }
  }
  HWY_INLINE void part(std::size_t element, std::size_t n) const {
    Lanes x[kArrays];
    for (std::size_t a = 0; a < kArrays; ++a) x[a] = Plain::load_first(changed[a] + element * sizeof(float), n);
    const Lanes scaled = times(Gradient::load_first(gradient + element * Gradient::kElementBytes, n), gradient_scale);
    rule.apply(x, scaled);
    canonicalise_all<Plain>(x);
    for (std::size_t a = 0; a < kArrays; ++a) Plain::store_first(x[a], changed[a] + element * sizeof(float), n);
    if constexpr (Values::kElementBytes > 0) {
      Values::store_first(Values::pack(x[0]), values + element * Values::kElementBytes, n);
    }
  }
};

template <class Rule, class Gradient, class Values>
void run_step(const OptimizerStep& step, const OptimizerArrays& arrays, std::size_t count) {
  const auto bytes = [](void* array) { return static_cast<std::byte*>(array); };
  const OptimizerBody<Rule, Gradient, Values> body{
      {bytes(arrays.master), bytes(arrays.states[0]), bytes(arrays.states[1])},
      static_cast<const std::byte*>(arrays.gradient),
      bytes(arrays.values),
      static_cast<float>(step.gradient_scale),
      Rule(step)};
  walk(body, count);
}

template <class Rule, class Gradient>
OptimizerFunction choose_values(DType values) {
  switch (values) {
    case DType::float32: return &run_step<Rule, Gradient, NoValues>;
    case DType::bfloat16: return &run_step<Rule, Gradient, BFloat16InOrder>;
    case DType::float16: return &run_step<Rule, Gradient, Float16>;
    default: return nullptr;
  }
}

template <class Rule>
OptimizerFunction choose_types(DType gradient, DType values) {
  switch (gradient) {
    case DType::float32: return choose_values<Rule, Native<float>>(values);
    case DType::bfloat16: return choose_values<Rule, BFloat16InOrder>(values);
    case DType::float16: return choose_values<Rule, Float16>(values);
    default: return nullptr;
  }
}

}  // namespace

OptimizerFunction choose_optimizer(OptimizerRule rule, DType gradient, DType values) {
  switch (rule) {
    case OptimizerRule::adamw: return choose_types<AdamRule<true>>(gradient, values);
    case OptimizerRule::adam: return choose_types<AdamRule<false>>(gradient, values);
    case OptimizerRule::sgd: return choose_types<SgdRule>(gradient, values);
    case OptimizerRule::momentum: return choose_types<MomentumRule<false>>(gradient, values);
    case OptimizerRule::nesterov: return choose_types<MomentumRule<true>>(gradient, values);
    case OptimizerRule::lion: return choose_types<LionRule>(gradient, values);
    case OptimizerRule::adamw_direction: return choose_types<DirectionRule>(gradient, values);
    case OptimizerRule::adamw_follow: return choose_types<FollowRule>(gradient, values);
  }
  return nullptr;
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(choose_optimizer);
OptimizerFunction find_optimizer(OptimizerRule rule, DType gradient, DType values) {
  return HWY_DYNAMIC_DISPATCH(choose_optimizer)(rule, gradient, values);
}
}  // namespace tutti::kernels
#endif
