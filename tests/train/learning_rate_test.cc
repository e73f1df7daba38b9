// Schedules of the learning rate: their values at turns and in between, and refusals.
#include "tutti/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "check.h"

namespace tutti::train {
namespace {

using tutti::testing::error_of;

TEST(LearningRateTest, IsConstantUnlessToldOtherwise) {
  const LearningRate rate{.peak = 0.25};
  for (const std::int64_t step : {1, 2, 1000, 1000000}) EXPECT_EQ(rate.at(step), 0.25);
}

TEST(LearningRateTest, WarmsUpInEqualSteps) {
  const LearningRate rate{.peak = 8, .warmup_steps = 4};
  EXPECT_EQ(rate.at(1), 2);
  EXPECT_EQ(rate.at(2), 4);
  EXPECT_EQ(rate.at(3), 6);
  EXPECT_EQ(rate.at(4), 8);
  EXPECT_EQ(rate.at(5), 8);
  const LearningRate from_half{.peak = 8, .warmup_steps = 4, .warmup_from = 0.5};
  EXPECT_EQ(from_half.at(1), 5);
  EXPECT_EQ(from_half.at(4), 8);
}

TEST(LearningRateTest, DecaysInEqualSteps) {
  const LearningRate rate{.peak = 16, .warmup_steps = 2, .decay = Decay::linear, .total_steps = 6, .final_share = 0.5};
  EXPECT_EQ(rate.at(1), 8);
  EXPECT_EQ(rate.at(2), 16);
  EXPECT_EQ(rate.at(3), 14);
  EXPECT_EQ(rate.at(4), 12);
  EXPECT_EQ(rate.at(6), 8);
  EXPECT_EQ(rate.at(7), 8);
  const LearningRate to_zero{.peak = 16, .decay = Decay::linear, .total_steps = 4};
  EXPECT_EQ(to_zero.at(1), 12);
  EXPECT_EQ(to_zero.at(4), 0);
  EXPECT_EQ(to_zero.at(400), 0);
}

TEST(LearningRateTest, DecaysAsACosine) {
  const LearningRate rate{
      .peak = 3, .warmup_steps = 10, .decay = Decay::cosine, .total_steps = 1010, .final_share = 0.1};
  for (std::int64_t step = 10; step <= 1010; ++step) {
    const double angle = std::numbers::pi * static_cast<double>(step - 10) / 1000;
    ASSERT_NEAR(rate.at(step), 0.3 + 2.7 * (1 + std::cos(angle)) / 2, 2e-15) << step;
  }
  EXPECT_EQ(rate.at(10), 3);
  EXPECT_DOUBLE_EQ(rate.at(1010), 0.3);
  EXPECT_EQ(rate.at(5000), rate.at(1010));
  const LearningRate to_zero{.peak = 1, .decay = Decay::cosine, .total_steps = 4};
  EXPECT_DOUBLE_EQ(to_zero.at(2), 0.5);
  EXPECT_EQ(to_zero.at(4), 0);
}

TEST(LearningRateTest, ScalesWithTheBatch) {
  EXPECT_EQ(scaled_rate(0.5, 4, ScalingRule::none), 0.5);
  EXPECT_EQ(scaled_rate(0.5, 4, ScalingRule::linear), 2);
  EXPECT_EQ(scaled_rate(0.5, 4, ScalingRule::square_root), 1);
  EXPECT_EQ(scaled_rate(0.5, 0.25, ScalingRule::square_root), 0.25);
}

TEST(LearningRateTest, BadInputGetsASentence) {
  const auto expect = [](const LearningRate& rate, std::int64_t step, const char* part) {
    const std::string text = error_of([&] { (void)rate.at(step); }).what();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect({}, 0, "step 0; steps count from 1");
  expect({.peak = NAN}, 1, "peak must be a finite number");
  expect({.warmup_steps = -3}, 1, "warmup_steps is -3");
  expect({.final_share = 1.5}, 1, "final_share are shares of the peak");
  expect({.warmup_steps = 10, .decay = Decay::cosine, .total_steps = 10}, 1,
         "a decay ends at total_steps, which is 10 and must be more than warmup_steps, 10");
  EXPECT_THROW((void)scaled_rate(1, 0, ScalingRule::linear), Error);
}

}  // namespace
}  // namespace tutti::train
