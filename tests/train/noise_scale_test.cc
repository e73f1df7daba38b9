// The gradient noise scale: its formulas on numbers made by hand, its estimate of a noise that is known, and its words.
#include "tutti/train/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace tutti::train {
namespace {

using tutti::testing::error_of;

// The squared norms that gradients with this signal and noise have on average.
NoiseSample expected_sample(double signal, double noise, double small_batch, double large_batch) {
  return {.small_batch = small_batch,
          .small_squares = signal + noise / small_batch,
          .large_batch = large_batch,
          .large_squares = signal + noise / large_batch};
}

TEST(NoiseScaleTest, TwoNormsTellSignalAndNoise) {
  for (const double large : {16.0, 64.0, 1000.0}) {
    const NoiseEstimate estimate = estimate_noise(expected_sample(3, 600, 8, large));
    EXPECT_NEAR(estimate.signal, 3, 1e-12);
    EXPECT_NEAR(estimate.noise, 600, 1e-9);
  }
}

TEST(NoiseScaleTest, AveragesSignalAndNoiseBeforeItDivides) {
  NoiseScale noise(0.5);
  EXPECT_FALSE(noise.average().has_value());
  EXPECT_FALSE(noise.scale().has_value());
  noise.add(expected_sample(1, 100, 8, 32));
  ASSERT_TRUE(noise.scale().has_value());
  EXPECT_NEAR(*noise.scale(), 100, 1e-9);  // the first counts in full, however long the memory
  noise.add(expected_sample(3, 500, 8, 32));
  // Weights 1/4 and 1/2, of 3/4.
  EXPECT_NEAR(noise.average()->signal, (1 * 0.25 + 3 * 0.5) / 0.75, 1e-12);
  EXPECT_NEAR(noise.average()->noise, (100 * 0.25 + 500 * 0.5) / 0.75, 1e-9);
  EXPECT_NEAR(*noise.scale(), (100 * 0.25 + 500 * 0.5) / (1 * 0.25 + 3 * 0.5), 1e-9);
}

// Gradients of examples are the true one and Gauss's noise; 8 ranks of 4 examples each.
TEST(NoiseScaleTest, FindsTheNoiseThatWasPutIn) {
  constexpr std::size_t kNumbers = 50, kRanks = 8;
  constexpr double kShare = 4, kTrue = 0.2, kDeviation = 1.5;
  std::mt19937_64 random(1);
  std::normal_distribution<double> gauss(0, kDeviation / std::sqrt(kShare));
  NoiseScale noise(0.999);
  for (int step = 0; step < 4000; ++step) {
    std::vector<double> mean(kNumbers);
    double own = 0, averaged = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (double& m : mean) {
        const double gradient = kTrue + gauss(random);
        own += gradient * gradient / kRanks;
        m += gradient / kRanks;
      }
    }
    for (const double m : mean) averaged += m * m;
    noise.add({kShare, own, kShare * kRanks, averaged});
  }
  const double expected = kDeviation * kDeviation / (kTrue * kTrue);
  EXPECT_NEAR(*noise.scale(), expected, 0.1 * expected);
}

TEST(NoiseScaleTest, MoreRanksBringWhatTheNoiseLetsThem) {
  const MoreRanks far_below = with_more_ranks(1e9, 1, 2), at = with_more_ranks(100, 100, 2);
  EXPECT_NEAR(far_below.steps, 0.5, 1e-8);
  EXPECT_NEAR(far_below.examples, 1, 1e-8);
  EXPECT_DOUBLE_EQ(at.steps, 0.75);
  EXPECT_DOUBLE_EQ(at.examples, 1.5);
  const MoreRanks without_noise = with_more_ranks(0, 100, 4);
  EXPECT_DOUBLE_EQ(without_noise.steps, 1);
  EXPECT_DOUBLE_EQ(without_noise.examples, 4);
}

TEST(NoiseScaleTest, SaysWhatItMeans) {
  NoiseScale noise;
  EXPECT_EQ(noise.to_text(64), "gradient noise scale: not known before the first step on two ranks or more");
  noise.add(expected_sample(1, 1024, 8, 64));
  EXPECT_EQ(noise.to_text(64),
            "gradient noise scale 1024 examples; a batch of 64 is small beside it: twice the ranks would need 53 % of "
            "the steps and 106 % of the examples (more ranks pay)");
  EXPECT_EQ(noise.to_text(1024),
            "gradient noise scale 1024 examples; a batch of 1024 is about it: twice the ranks would need 75 % of the "
            "steps and 150 % of the examples (more ranks pay in part)");
  EXPECT_EQ(noise.to_text(16384),
            "gradient noise scale 1024 examples; a batch of 16384 is beyond it: twice the ranks would need 97 % of the "
            "steps and 194 % of the examples (more ranks buy little)");
  NoiseScale unclear;
  unclear.add(expected_sample(-1, 1024, 8, 64));
  EXPECT_FALSE(unclear.scale().has_value());
  EXPECT_NE(unclear.to_text(64).find("no signal above the noise in 1 step;"), std::string::npos);
}

TEST(NoiseScaleTest, StepsThatOverflowedSayNothing) {
  NoiseScale noise;
  noise.add(expected_sample(1, 100, 8, 32));
  noise.add({.small_batch = 8, .small_squares = INFINITY, .large_batch = 32, .large_squares = INFINITY});
  EXPECT_EQ(noise.samples(), 1);
  EXPECT_NEAR(*noise.scale(), 100, 1e-9);
}

TEST(NoiseScaleTest, BadInputGetsASentence) {
  const auto expect = [](auto call, const char* part) {
    const std::string text = error_of(call).what();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect([] { (void)estimate_noise(expected_sample(1, 1, 8, 8)); }, "the batches of a sample must differ");
  expect([] { (void)estimate_noise({8, -1, 16, 1}); }, "less than 0");
  expect([] { NoiseScale noise(1); }, "memory must be at least 0 and less than 1");
}

}  // namespace
}  // namespace tutti::train
