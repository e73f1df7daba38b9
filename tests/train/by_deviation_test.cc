// TopK and PowerSgd of gradients over their deviations, with AdamW whose variances stay as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "check.h"
#include "train/one_matrix.h"
#include "train/ones.h"
#include "tutti/train/compression.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::make;
using testing::on_ranks;
using testing::OneMatrix;
using testing::require;
using train::AdamW;
using train::PowerSgd;
using train::Strategy;
using train::StrategyOptions;
using train::TopK;

constexpr int kFrom = 3, kRanks = 2;
constexpr AdamW kOptimizer{.learning_rate = 1e-2};

// AdamW in float64, and from step kFrom on its frozen form over what is largest in units of the deviation.
struct SlowTopK {
  std::vector<double> values = std::vector<double>(OneMatrix::kElements), m = values, v = values;
  std::vector<std::vector<double>> waiting = std::vector(kRanks, values);
  std::size_t kept = 0;
  std::optional<double> clip_norm = {};
  double most_beta1 = 1, missing = 1;  // of the weights in m
  std::vector<double> norms = {};
  std::vector<bool> bounded = std::vector<bool>(OneMatrix::kElements);  // as directions of an AdamW are

  double deviation(std::size_t i, int updates) const {
    return std::sqrt(v[i] / (1 - std::pow(kOptimizer.beta2, updates))) + kOptimizer.epsilon;
  }
  void wait_for(std::size_t i, double& waits, double direction) {
    const double most = 1 / std::sqrt(1 - kOptimizer.beta2);
    bounded[i] = bounded[i] || std::abs(direction) > most;
    waits += std::clamp(direction, -most, most);
  }
  std::vector<double> mean_of(int step) {
    std::vector<double> mean(values.size());
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> gradient = OneMatrix::gradient(rank, step);
      std::vector<std::size_t> order(values.size());
      std::iota(order.begin(), order.end(), 0);
      std::vector<double>& waits = waiting[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; step >= kFrom && i < values.size(); ++i)
        wait_for(i, waits[i], static_cast<double>(gradient[i]) / deviation(i, kFrom));
      std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return std::abs(waits[i]); });
      for (std::size_t k = 0; k < values.size(); ++k) {
        const std::size_t i = order[k];
        if (step < kFrom) mean[i] += static_cast<double>(gradient[i]) / kRanks;
        if (step >= kFrom && k < kept) mean[i] += std::exchange(waits[i], 0) / kRanks * deviation(i, kFrom);
      }
    }
    return mean;
  }
  void step(int step) {
    std::vector<double> mean = mean_of(step);
    norms.push_back(std::sqrt(std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0)));
    for (double& each : mean) each *= clip_norm ? std::min(1.0, *clip_norm / norms.back()) : 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double beta1 = step < kFrom ? kOptimizer.beta1 : std::min(kOptimizer.beta1, most_beta1);
      const double most = (1 - beta1) / std::sqrt(1 - kOptimizer.beta2);
      if (step >= kFrom && beta1 * std::abs(m[i]) > 0.95 * most * deviation(i, kFrom)) bounded[i] = true;
      m[i] = beta1 * m[i] + (1 - beta1) * mean[i];
      if (i == 0) missing *= beta1;
      if (step < kFrom) v[i] = kOptimizer.beta2 * v[i] + (1 - kOptimizer.beta2) * mean[i] * mean[i];
      const double rate = kOptimizer.learning_rate / (1 - missing);
      values[i] *= 1 - kOptimizer.learning_rate * kOptimizer.weight_decay;
      values[i] -= rate * m[i] / deviation(i, std::min(step + 1, kFrom));
    }
  }
};

void compare_with_slow(const TopK& settings, std::optional<double> clip_norm = {}) {
  SlowTopK slow{.kept = train::kept_count(settings, OneMatrix::kElements),
                .clip_norm = clip_norm,
                .most_beta1 = settings.most_beta1};
  for (int step = 0; step < 8; ++step) slow.step(step);
  on_ranks(kRanks, [&](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy =
        make(0, comm, one.parameters, {.clip_norm = clip_norm, .compression = settings, .compress_from_step = kFrom},
             kOptimizer);
    for (int step = 0; step < 8; ++step) {
      const double norm = one.step(strategy, one.gradient(comm.rank(), step)).gradient_norm;
      const double slow_norm = clip_norm ? slow.norms[static_cast<std::size_t>(step)] : 0;
      require(
          std::abs(norm - slow_norm) <= 1e-4 * slow_norm,
          "norm " + std::to_string(norm) + " in step " + std::to_string(step) + ", not " + std::to_string(slow_norm));
    }
    const std::vector<float> found = one.values_in(strategy);
    // A hundredth of a step apart: another choice would be a whole one.
    for (std::size_t i = 0; i < found.size(); ++i)
      require(slow.bounded[i] || std::abs(static_cast<double>(found[i]) - slow.values[i]) < 1e-4,
              "element " + std::to_string(i));
    require(std::ranges::count(slow.bounded, true) < std::ssize(slow.bounded) / 20, "nearly all are compared");
    strategy.verify();
  });
}

TEST(ByDeviation, GivesTheValuesOfASlowOne) {
  for (const double most_beta1 : {0.0, 0.5, 1.0})
    compare_with_slow({.share = 0.1, .by_deviation = true, .most_beta1 = most_beta1});
}
TEST(ByDeviation, ClipsWhatCame) { compare_with_slow({.share = 0.1, .by_deviation = true}, 5); }

// Of gradients a hundred times as small none is among the largest, but in units of their deviations half are.
TEST(ByDeviation, SmallGradientsDoNotWaitLongest) {
  on_ranks(kRanks, [](Communicator& comm) {
    const OneMatrix one;
    const auto small_that_moved = [&](bool by_deviation) {
      Strategy strategy =
          make(0, comm, one.parameters,
               {.compression = TopK{.share = 0.1, .by_deviation = by_deviation}, .compress_from_step = kFrom},
               AdamW{.beta1 = 0, .weight_decay = 0});
      std::vector<float> before;
      for (int step = 0; step <= kFrom; ++step) {
        before = one.values_in(strategy);
        std::vector<float> gradient = one.gradient(comm.rank(), step);
        for (std::size_t i = 0; i < gradient.size() / 2; ++i) gradient[i] *= 0.01F;
        one.step(strategy, gradient);
      }
      const std::vector<float> after = one.values_in(strategy);
      std::size_t moved = 0;
      for (std::size_t i = 0; i < after.size() / 2; ++i) moved += after[i] != before[i] ? 1 : 0;
      return moved;
    };
    require(small_that_moved(false) == 0, "never among the largest");
    require(small_that_moved(true) > one.kElements / 20, "as many as of the large ones, about");
  });
}

TEST(ByDeviation, WhatItDoesNotGoWithIsTold) {
  on_ranks(1, [](Communicator& comm) {
    const OneMatrix one;
    const auto words = [&](StrategyOptions options, const train::Optimizer& optimizer = AdamW{}, int stage = 0) {
      if (std::holds_alternative<std::monostate>(options.compression)) options.compression = TopK{.by_deviation = true};
      return std::string(error_of([&] { (void)make(stage, comm, one.parameters, options, optimizer); }).what());
    };
    const auto tells = [](const std::string& told, const char* part) { require(contains(told, part), told); };
    tells(words({}), "TopK by deviation from step 0 on");
    tells(words({.compression = PowerSgd{.by_deviation = true}}), "PowerSgd by deviation from step 0 on");
    tells(words({.compress_from_step = 5}, train::Sgd{}), "Sgd has no variance to freeze");
    tells(words({.compress_from_step = 5}, AdamW{}, 2), "ZeRO stage 2 cuts them; take data_parallel");
    tells(words({.measure_noise = true, .compress_from_step = 5}), "TopK by deviation with measure_noise");
    tells(words({.unused_parameters = true, .compress_from_step = 5}), "TopK by deviation with unused_parameters");
    tells(words({.compression = TopK{.momentum = 0.9, .by_deviation = true}, .compress_from_step = 5}),
          "with a momentum of its own");
    tells(words({.compression = TopK{.by_deviation = true, .most_beta1 = 1.5}, .compress_from_step = 5}),
          "top-k with most_beta1 1.500000; give a number from 0 to 1");
    tells(words({.compression = PowerSgd{.by_deviation = true, .most_beta1 = -1}, .compress_from_step = 5}),
          "PowerSgd with most_beta1 -1.000000; give a number from 0 to 1");
  });
}

}  // namespace
}  // namespace tutti
