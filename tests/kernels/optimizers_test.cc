// Steps of optimizers against the same formulas one element at a time, bit for bit: every rule, type, instruction set
// and length, hostile numbers included; and sums of squares.
#include "kernels/optimizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/samples.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

using kernels::OptimizerRule;
using kernels::OptimizerStep;

constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16};
constexpr OptimizerRule kRules[] = {OptimizerRule::adamw,           OptimizerRule::adam,        OptimizerRule::sgd,
                                    OptimizerRule::momentum,        OptimizerRule::nesterov,    OptimizerRule::lion,
                                    OptimizerRule::adamw_direction, OptimizerRule::adamw_follow};
constexpr const char* kRuleNames[] = {"adamw", "adam", "sgd", "momentum", "nesterov", "lion", "direction", "follow"};

float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7FC00000u); }

float f(double x) { return static_cast<float>(x); }

// The master value and two states of one element.
using Element = std::array<float, 3>;

void step_adam(const OptimizerStep& s, Element& x, float g, bool decoupled) {
  double power1 = 1, power2 = 1;
  for (std::int64_t i = 0; i < s.number; ++i) power1 *= s.beta1, power2 *= s.beta2;
  if (decoupled) x[0] *= f(1 - s.learning_rate * s.weight_decay);
  if (!decoupled) g += x[0] * f(s.weight_decay);
  x[1] = x[1] * f(s.beta1) + g * f(1 - s.beta1);
  x[2] = x[2] * f(s.beta2) + g * f(1 - s.beta2) * g;
  const float divisor = std::sqrt(x[2]) * f(1 / std::sqrt(1 - power2)) + f(s.epsilon);
  x[0] -= x[1] * f(s.learning_rate / (1 - power1)) / divisor;
}

// Of a variance that stays as it is.
void step_frozen(const OptimizerStep& s, Element& x, float g, bool follows) {
  double power1 = 1, power2 = 1;
  for (std::int64_t i = 0; i < s.number; ++i) power1 *= i < s.variances ? s.beta1_before : s.beta1;
  for (std::int64_t i = 0; i < s.variances; ++i) power2 *= s.beta2;
  const float deviation = std::sqrt(x[2]) * f(1 / std::sqrt(1 - power2)) + f(s.epsilon);
  if (follows) {
    if (x[2] == 0) g = 0;
    x[0] = x[0] * f(1 - s.learning_rate * s.weight_decay) - g * f(s.learning_rate / (1 - power1));
    x[1] = g * deviation;
    return;
  }
  const float momentum = x[1] * f(s.beta1) + g * f(1 - s.beta1), most = f((1 - s.beta1) / std::sqrt(1 - s.beta2));
  x[0] = momentum / deviation;
  if (std::abs(x[0]) > std::max(1.0F, most)) x[0] = std::copysign(std::max(1.0F, most), x[0]);
  if (x[2] == 0) x[0] = 0;
  if (!std::isfinite(momentum)) x[0] = momentum;
}

void step_sgd(const OptimizerStep& s, Element& x, float g, OptimizerRule rule) {
  g += x[0] * f(s.weight_decay);
  float direction = g;
  if (rule != OptimizerRule::sgd) {
    x[1] = x[1] * f(s.beta1) + g;
    direction = rule == OptimizerRule::nesterov ? g + x[1] * f(s.beta1) : x[1];
  }
  x[0] -= direction * f(s.learning_rate);
}

void step_lion(const OptimizerStep& s, Element& x, float g) {
  const float direction = x[1] * f(s.beta1) + g * f(1 - s.beta1);
  x[0] *= f(1 - s.learning_rate * s.weight_decay);
  if (direction > 0) x[0] -= f(s.learning_rate);
  if (direction < 0) x[0] += f(s.learning_rate);
  if (std::isnan(direction)) x[0] = direction;
  x[1] = x[1] * f(s.beta2) + g * f(1 - s.beta2);
}

void step_element(OptimizerRule rule, const OptimizerStep& s, Element& x, float g) {
  g *= f(s.gradient_scale);
  switch (rule) {
    case OptimizerRule::adamw: step_adam(s, x, g, true); break;
    case OptimizerRule::adam: step_adam(s, x, g, false); break;
    case OptimizerRule::lion: step_lion(s, x, g); break;
    case OptimizerRule::adamw_direction: step_frozen(s, x, g, false); break;
    case OptimizerRule::adamw_follow: step_frozen(s, x, g, true); break;
    default: step_sgd(s, x, g, rule);
  }
  for (float& value : x) value = canonical(value);
}

std::size_t states_of(OptimizerRule rule) {
  if (rule == OptimizerRule::sgd) return 0;
  const bool has_one =
      rule == OptimizerRule::momentum || rule == OptimizerRule::nesterov || rule == OptimizerRule::lion;
  return has_one ? 1 : 2;
}

std::vector<float> to_floats(DType type, const Buffer& elements) {
  const std::size_t count = elements.size() / size_of(type);
  const Buffer wide = reference_convert(type, DType::float32, elements.data(), count);
  std::vector<float> floats(count);
  if (count != 0) std::memcpy(floats.data(), wide.data(), wide.size());
  return floats;
}

Buffer to_bytes(DType type, const std::vector<float>& values) {
  return reference_convert(DType::float32, type, reinterpret_cast<const std::byte*>(values.data()), values.size());
}

// All arrays of a step.
struct Arrays {
  std::vector<float> changed[3];
  Buffer gradient, values;

  void run(OptimizerRule rule, const OptimizerStep& step, DType gradient_type, DType values_type, std::size_t begin,
           std::size_t end) {
    kernels::OptimizerArrays arrays{.master = changed[0].data() + begin,
                                    .gradient = gradient.data() + begin * size_of(gradient_type)};
    for (std::size_t i = 0; i < states_of(rule); ++i) arrays.states[i] = changed[1 + i].data() + begin;
    if (values_type != DType::float32) arrays.values = values.data() + begin * size_of(values_type);
    kernels::find_optimizer(rule, gradient_type, values_type)(step, arrays, end - begin);
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

constexpr OptimizerStep kStep{.learning_rate = 3e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.99,
                              .epsilon = 1e-7,
                              .weight_decay = 0.1,
                              .gradient_scale = 0.7,
                              .number = 3,
                              .variances = 2,
                              .beta1_before = 0.8};

class OptimizerKernelTest : public testing::TestWithParam<OptimizerRule> {
 protected:
  static Arrays make(std::size_t count, DType gradient_type, DType values_type) {
    Arrays arrays;
    for (std::size_t i = 0; i < 3; ++i) {
      arrays.changed[i] = to_floats(DType::float32, make_samples(DType::float32, count, count + i));
    }
    arrays.gradient = make_samples(gradient_type, count, count + 3);
    arrays.values.resize(count * size_of(values_type), std::byte{0x5A});
    return arrays;
  }

  static Arrays expected_of(Arrays arrays, DType gradient_type, DType values_type) {
    const std::vector<float> gradient = to_floats(gradient_type, arrays.gradient);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      Element x{arrays.changed[0][i], arrays.changed[1][i], arrays.changed[2][i]};
      step_element(GetParam(), kStep, x, gradient[i]);
      for (std::size_t a = 0; a < 1 + states_of(GetParam()); ++a) arrays.changed[a][i] = x[a];
    }
    if (values_type != DType::float32) arrays.values = to_bytes(values_type, arrays.changed[0]);
    return arrays;
  }

  static void check_equal(const Arrays& got, const Arrays& expected) {
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(same_bits(got.changed[i], expected.changed[i])) << (i == 0 ? "master" : "state");
    }
    ASSERT_EQ(got.values, expected.values);
  }
};

TEST_P(OptimizerKernelTest, EveryTypeLengthAndTarget) {
  for (const DType gradient_type : kTypes) {
    for (const DType values_type : kTypes) {
      for (const std::size_t count : {0, 1, 3, 7, 15, 16, 17, 31, 33, 64, 95, 1001}) {
        const Arrays before = make(count, gradient_type, values_type);
        const Arrays expected = expected_of(before, gradient_type, values_type);
        for (std::size_t target = 0; target < kernels::target_count(); ++target) {
          kernels::use_target(target);
          SCOPED_TRACE(kernels::target_name(target) + " " + std::to_string(count) + " " +
                       std::string(name_of(gradient_type)) + " " + std::string(name_of(values_type)));
          Arrays got = before;
          got.run(GetParam(), kStep, gradient_type, values_type, 0, count);
          ASSERT_NO_FATAL_FAILURE(check_equal(got, expected));
        }
      }
    }
  }
  kernels::use_target(0);
}

// Pieces begin anywhere, at addresses aligned to one element, and every piece may take another instruction set.
TEST_P(OptimizerKernelTest, AnyCutGivesTheSameBits) {
  constexpr std::size_t kCount = 777;
  for (const DType gradient_type : kTypes) {
    const DType values_type = DType::bfloat16;
    const Arrays before = make(kCount, gradient_type, values_type);
    const Arrays expected = expected_of(before, gradient_type, values_type);
    for (const std::size_t piece : {1, 5, 13, 16, 50, 259}) {
      Arrays got = before;
      for (std::size_t begin = 0; begin < kCount; begin += piece) {
        kernels::use_target(begin / piece % kernels::target_count());
        got.run(GetParam(), kStep, gradient_type, values_type, begin, std::min(begin + piece, kCount));
      }
      SCOPED_TRACE(piece);
      ASSERT_NO_FATAL_FAILURE(check_equal(got, expected));
    }
  }
  kernels::use_target(0);
}

std::string rule_name(const testing::TestParamInfo<OptimizerRule>& info) {
  return kRuleNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Rules, OptimizerKernelTest, testing::ValuesIn(kRules), rule_name);

TEST(OptimizerTableTest, OtherTypesHaveNone) {
  EXPECT_EQ(kernels::find_optimizer(OptimizerRule::adamw, DType::float64, DType::float32), nullptr);
  EXPECT_EQ(kernels::find_optimizer(OptimizerRule::lion, DType::float32, DType::int8), nullptr);
}

// The order that kernels.h promises.
double reference_squares(const std::vector<double>& values) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kernels::kSquaresBlock) {
    double partial[16] = {};
    const std::size_t end = std::min(begin + kernels::kSquaresBlock, values.size());
    for (std::size_t i = begin; i < end; ++i) partial[(i - begin) % 16] += values[i] * values[i];
    for (std::size_t left = 8; left > 0; left /= 2) {
      for (std::size_t i = 0; i < left; ++i) partial[i] = partial[2 * i] + partial[2 * i + 1];
    }
    sum += partial[0];
  }
  return sum;
}

TEST(SquaresTest, EveryTypeLengthAndTarget) {
  for (const DType type : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const std::size_t count : {0, 1, 2, 7, 8, 15, 16, 17, 100, 1023, 1024, 1025, 5000}) {
      // Numbers around one, whose sum shows the order of adding.
      std::vector<double> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<double>(i + count)) + 1e-3;
      Buffer elements(count * 8);
      if (count != 0) std::memcpy(elements.data(), values.data(), elements.size());
      elements = reference_convert(DType::float64, type, elements.data(), count);
      const Buffer wide = reference_convert(type, DType::float64, elements.data(), count);
      if (count != 0) std::memcpy(values.data(), wide.data(), wide.size());
      const double expected = reference_squares(values);
      for (std::size_t target = 0; target < kernels::target_count(); ++target) {
        kernels::use_target(target);
        const double got = kernels::sum_of_squares(elements.data(), type, count);
        ASSERT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(expected))
            << name_of(type) << " " << count << " " << kernels::target_name(target);
      }
    }
  }
  kernels::use_target(0);
}

TEST(SquaresTest, NanAndInfinityShow) {
  std::vector<float> values(3000, 1.0F);
  EXPECT_EQ(kernels::sum_of_squares(values.data(), DType::float32, values.size()), 3000.0);
  values[2500] = -INFINITY;
  EXPECT_EQ(kernels::sum_of_squares(values.data(), DType::float32, values.size()), INFINITY);
  values[10] = -NAN;
  for (std::size_t target = 0; target < kernels::target_count(); ++target) {
    kernels::use_target(target);
    const double sum = kernels::sum_of_squares(values.data(), DType::float32, values.size());
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sum), 0x7FF8000000000000u);
  }
  kernels::use_target(0);
}

}  // namespace
}  // namespace tutti::kernels_test
