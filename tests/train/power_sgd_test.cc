// Gradients that travel as products of thin matrices: against a slow process in float64, bits, bytes, what is lost and
// kept, and what users are told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "train/one_matrix.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::Bytes;
using testing::contains;
using testing::error_of;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::OneMatrix;
using testing::require;
using testing::ToyModel;
using testing::train_step;
using testing::values_of;
using train::NotFinite;
using train::PowerSgd;
using train::Strategy;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kRows = OneMatrix::kRows, kColumns = OneMatrix::kColumns;

using Vectors = std::vector<std::vector<double>>;

void make_orthonormal(Vectors& vectors) {
  for (std::size_t k = 0; k < vectors.size(); ++k) {
    const auto dot = [&](const std::vector<double>& other) {
      double sum = 0;
      for (std::size_t i = 0; i < other.size(); ++i) sum += other[i] * vectors[k][i];
      return sum;
    };
    for (std::size_t other = 0; other < k; ++other) {
      const double share = dot(vectors[other]);
      for (std::size_t i = 0; i < vectors[k].size(); ++i) vectors[k][i] -= share * vectors[other][i];
    }
    const double length = std::sqrt(dot(vectors[k]));
    for (double& value : vectors[k]) value /= length;
  }
}

// The published form, of all ranks, in float64; the first step's right matrix is found by `right`.
struct SlowPowerSgd {
  Vectors right;
  Vectors lost;  // by rank

  std::vector<double> mean(const std::vector<std::vector<float>>& gradients) {
    const std::size_t ranks = gradients.size(), rank = right.size();
    Vectors left(rank, std::vector<double>(kRows));
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t e = 0; e < OneMatrix::kElements; ++e) {
        lost[r][e] += gradients[r][e];
        for (std::size_t k = 0; k < rank; ++k)
          left[k][e / kColumns] += lost[r][e] * right[k][e % kColumns] / static_cast<double>(ranks);
      }
    make_orthonormal(left);
    right.assign(rank, std::vector<double>(kColumns));
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t e = 0; e < OneMatrix::kElements; ++e)
        for (std::size_t k = 0; k < rank; ++k)
          right[k][e % kColumns] += lost[r][e] * left[k][e / kColumns] / static_cast<double>(ranks);
    std::vector<double> product(OneMatrix::kElements);
    for (std::size_t e = 0; e < product.size(); ++e)
      for (std::size_t k = 0; k < rank; ++k) product[e] += left[k][e / kColumns] * right[k][e % kColumns];
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t e = 0; e < product.size(); ++e) lost[r][e] -= product[e];
    return product;
  }
};

// Of two directions that are the same on all ranks, the second fainter, and noise that is not.
std::vector<float> two_directions(int rank, int step, float noise_share) {
  std::vector<float> gradient = OneMatrix::gradient(rank, step);
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    const auto row = static_cast<float>(e / kColumns), column = static_cast<float>(e % kColumns);
    gradient[e] = noise_share * gradient[e] + std::sin(row) * std::cos(column) + 0.3F * std::cos(3 * row) * column / 16;
  }
  return gradient;
}

// A first step along known directions: its product spans the same as what a slow process then begins with.
TEST(PowerSgdHook, FollowsASlowOneInFloat64) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [&](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy = make(0, comm, one.parameters, {.compression = PowerSgd{.rank = 2}, .error_feedback = true},
                             train::Sgd{.learning_rate = 1});
    // Gradients of rank 2 are said exactly, whatever the first directions, and leave the right matrix at their own.
    one.step(strategy, two_directions(0, 0, 0));
    std::vector<float> before = one.values_in(strategy);
    const std::vector<float> exact = two_directions(0, 0, 0);
    for (std::size_t e = 0; e < before.size(); ++e) require(std::abs(before[e] + exact[e]) < 1e-4F, "exact");
    SlowPowerSgd slow;
    for (int k = 0; k < 2; ++k) {
      slow.right.emplace_back(kColumns);
      for (std::size_t j = 0; j < kColumns; ++j)
        slow.right[k][j] = k == 0 ? std::cos(static_cast<double>(j)) : static_cast<double>(j);
    }
    slow.lost.assign(kRanks, std::vector<double>(OneMatrix::kElements));
    for (int step = 1; step < 6; ++step) {
      std::vector<std::vector<float>> gradients;
      for (int rank = 0; rank < kRanks; ++rank) gradients.push_back(two_directions(rank, step, 0.3F));
      const std::vector<double> mean = slow.mean(gradients);
      one.step(strategy, gradients[static_cast<std::size_t>(comm.rank())]);
      const std::vector<float> after = one.values_in(strategy);
      for (std::size_t e = 0; e < after.size(); ++e)
        require(std::abs(before[e] - after[e] - mean[e]) < 2e-4, "the product of a slow one");
      before = after;
    }
  });
}

// Everything goes by matrix, so that buckets and shards change no bit.
TEST(PowerSgdHook, HasTheSameBitsInAllStages) {
  for (const int ranks : {1, 3}) {
    std::vector<Bytes> expected;
    for (const int stage : kStages) {
      std::vector<std::vector<Bytes>> seen(static_cast<std::size_t>(ranks));
      on_ranks(ranks, [&](Communicator& comm) {
        const ToyModel model;
        Strategy strategy = make(stage, comm, model.parameters,
                                 {.bucket_bytes = stage == 1 ? 4096U : 1U << 20, .compression = PowerSgd{.rank = 3}});
        for (int step = 0; step < 4; ++step) train_step(strategy, model, comm.rank(), step);
        strategy.verify();
        seen[static_cast<std::size_t>(comm.rank())] = values_of(strategy, model);
      });
      if (expected.empty()) expected = seen[0];
      for (const std::vector<Bytes>& values : seen) EXPECT_EQ(values, expected) << stage;
    }
  }
}

TEST(PowerSgdHook, SendsWhatItsFormulaSays) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      Strategy strategy = make(stage, comm, one.parameters, {.compression = PowerSgd{.rank = 3}});
      one.step(strategy, one.gradient(comm.rank(), 0));
      const Counters before = strategy.counters();
      one.step(strategy, one.gradient(comm.rank(), 1));
      const Counters after = strategy.counters();
      const std::uint64_t bytes = 4 * 3 * (kRows + kColumns);
      require(after[Verb::all_reduce].bytes - before[Verb::all_reduce].bytes == bytes, "4 r (rows + columns)");
      const train::Report report = strategy.report();
      require(train::spoken(report.each_step, Verb::all_reduce) == train::Spoken{2, bytes}, "as it says");
      require(report.bytes.errors == 4 * OneMatrix::kElements, "4 bytes for each number");
      require(contains(train::to_text(report), "rank 3 gradients of bucket 0, 1 parameter"), train::to_text(report));
    });
  }
}

// w1 of the toy is 64 x 33, the embedding 50 x 31: rank 20 pays for the first alone.
TEST(PowerSgdHook, WhatDoesNotPayGoesPlain) {
  on_ranks(2, [](Communicator& comm) {
    const ToyModel model;
    Strategy strategy = make(0, comm, model.parameters,
                             {.compression = PowerSgd{.rank = 20}, .compresses = [](const train::Parameter& parameter) {
                                return parameter.name == "w1" || parameter.name == "embedding";
                              }});
    train_step(strategy, model, comm.rank(), 0);
    std::uint64_t thin = 0;
    for (const train::Phrase& phrase : strategy.report().each_step)
      if (contains(phrase.what, "rank 20")) thin += phrase.bytes;
    require(thin == 4 * 20 * (64 + 33), std::to_string(thin));
  });
}

// A gradient of full rank, the same in every step: one direction a step, and what is lost comes in later.
TEST(PowerSgdHook, FeedbackBringsWhatWasLost) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const std::vector<float> gradient = one.gradient(7, 7);
    const auto distance = [&](bool feedback) {
      Strategy strategy =
          make(0, comm, one.parameters, {.compression = PowerSgd{.rank = 2}, .error_feedback = feedback},
               train::Sgd{.learning_rate = 1});
      constexpr int kSteps = 200;
      for (int step = 0; step < kSteps; ++step) one.step(strategy, gradient);
      const std::vector<float> values = one.values_in(strategy);
      double missing = 0, all = 0;
      for (std::size_t e = 0; e < values.size(); ++e) {
        missing += std::pow(values[e] / kSteps + gradient[e], 2);
        all += std::pow(gradient[e], 2);
      }
      return std::sqrt(missing / all);
    };
    require(distance(true) < 0.1, "most of it has come");
    require(distance(false) > 0.5, "without feedback it never does");
  });
}

TEST(PowerSgdHook, WeighsByExamples) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      Strategy strategy =
          make(stage, comm, one.parameters, {.compression = PowerSgd{}}, train::Sgd{.learning_rate = 1});
      const std::vector<float> gradient(one.kElements, comm.rank() == 0 ? 4.0F : 8.0F);
      strategy.weight(comm.rank() == 0 ? 3 : 1);
      one.step(strategy, gradient);
      for (const float value : one.values_in(strategy)) require(std::abs(value + 5) < 1e-3F, std::to_string(value));
      strategy.weight(comm.rank() == 0 ? 2 : 0);
      if (comm.rank() == 0) {
        one.step(strategy, gradient);
      } else {
        strategy.step();
      }
      for (const float value : one.values_in(strategy)) require(std::abs(value + 9) < 1e-3F, std::to_string(value));
    });
  }
}

TEST(PowerSgdHook, ZeroGradientsStayZerosAndItGoesOn) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy = make(0, comm, one.parameters, {.compression = PowerSgd{}}, train::Sgd{.learning_rate = 1});
    for (int step = 0; step < 3; ++step) one.step(strategy, std::vector<float>(one.kElements));
    for (const float value : one.values_in(strategy)) require(value == 0, "nothing comes of nothing");
    // Numbers whose squares are none.
    for (const float unit : {1e-25F, 1e25F}) {
      std::vector<float> gradient = two_directions(0, 0, 0);
      for (float& value : gradient) value *= unit;
      const std::vector<float> before = one.values_in(strategy);
      one.step(strategy, gradient);
      const std::vector<float> after = one.values_in(strategy);
      for (std::size_t e = 0; e < after.size(); ++e)
        require(std::abs((after[e] - before[e] + gradient[e]) / unit) < 1e-3F, "the gradient of rank 2");
    }
  });
}

TEST(PowerSgdHook, NotFiniteGradientsAreNamed) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      std::vector<float> gradient(one.kElements, 1.0F);
      if (comm.rank() == 1) gradient[2000] = kNaN;
      Strategy strategy = make(stage, comm, one.parameters, {.compression = PowerSgd{}});
      const Error error = error_of([&] { one.step(strategy, gradient); });
      require(contains(error.what(), "rank 1, parameter \"w\": element 2000 of its gradient is not finite"),
              error.what());
    });
  }
}

TEST(PowerSgdHook, NotFiniteGradientsAreSkippedAndForgotten) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      Strategy strategy = make(stage, comm, one.parameters, {.compression = PowerSgd{.not_finite = NotFinite::pass}},
                               train::Sgd{.learning_rate = 1});
      require(one.step(strategy, std::vector<float>(one.kElements, comm.rank() == 1 ? kNaN : 1.0F)).skipped, "skipped");
      for (const float value : one.values_in(strategy)) require(value == 0, "the step is skipped");
      one.step(strategy, two_directions(0, 0, 0));
      const std::vector<float> values = one.values_in(strategy), exact = two_directions(0, 0, 0);
      for (std::size_t e = 0; e < values.size(); ++e) require(std::abs(values[e] + exact[e]) < 1e-3F, "and it goes on");
    });
  }
}

// The scale shrinks on all ranks alike, and what was lost follows it.
TEST(PowerSgdHook, LossScaleSkipsAndRescalesWhatWasLost) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      const auto run = [&](bool scaled) {
        train::StrategyOptions options{.compression = PowerSgd{.rank = 1}};
        if (scaled) options.loss_scale = train::LossScale{.initial = 4, .interval = 1};
        Strategy strategy = make(stage, comm, one.parameters, options, train::Sgd{.learning_rate = 1});
        for (int step = 0; step < 3; ++step) {
          std::vector<float> gradient = one.gradient(comm.rank(), step);
          for (float& value : gradient) value *= static_cast<float>(strategy.loss_scale());
          one.step(strategy, gradient);
        }
        if (scaled) {
          require(strategy.loss_scale() == 32, "it has grown");
          std::vector<float> gradient(one.kElements, 1.0F);
          if (comm.rank() == 0) gradient[5] = std::numeric_limits<float>::infinity();
          require(one.step(strategy, gradient).skipped, "skipped");
          require(strategy.loss_scale() == 16, "and it shrinks");
        }
        return one.values_in(strategy);
      };
      const std::vector<float> plain = run(false), scaled = run(true);
      for (std::size_t e = 0; e < plain.size(); ++e) require(std::abs(plain[e] - scaled[e]) < 1e-4F, "the same");
    });
  }
}

TEST(PowerSgdHook, TakesGradientsOf16Bits) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const ToyModel model(DType::bfloat16);
      const auto trained = [&](std::size_t rank) {
        Strategy strategy = make(stage, comm, model.parameters, {.compression = PowerSgd{.rank = rank}},
                                 train::Sgd{.learning_rate = 0.1});
        for (int step = 0; step < 2; ++step) train_step(strategy, model, comm.rank(), step);
        strategy.verify();
        return values_of(strategy, model);
      };
      Strategy plain = make(stage, comm, model.parameters, {}, train::Sgd{.learning_rate = 0.1});
      for (int step = 0; step < 2; ++step) train_step(plain, model, comm.rank(), step);
      const std::vector<Bytes> exact = values_of(plain, model), near = trained(18), far = trained(1);
      const auto distance = [&](const std::vector<Bytes>& others) {
        double sum = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
          const std::size_t count = model.parameters[i].elements();
          const std::vector<float> a = testing::to_floats(exact[i].data(), DType::bfloat16, count),
                                   b = testing::to_floats(others[i].data(), DType::bfloat16, count);
          for (std::size_t e = 0; e < count; ++e) sum += std::abs(a[e] - b[e]);
        }
        return sum;
      };
      require(distance(near) < 0.7 * distance(far),
              std::to_string(distance(near)) + " " + std::to_string(distance(far)));
    });
  }
}

TEST(PowerSgdHook, BadSettingsGetASentence) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const testing::Ones vectors;
    const auto words = [&](const train::Parameters& parameters, std::size_t rank) {
      return std::string(error_of([&] { make(0, comm, parameters, {.compression = PowerSgd{.rank = rank}}); }).what());
    };
    std::string said = words(one.parameters, 0);
    require(contains(said, "PowerSgd of rank 0; give a rank from 1 on"), said);
    said = words(one.parameters, 22);  // 22 * 97 > 64 * 33
    require(contains(said,
                     "PowerSgd of rank 22 is too large for every matrix of the model; give a rank of at most 21, "
                     "which fits parameter \"w\", float32 [64, 33]"),
            said);
    said = words(one.parameters, std::size_t{1} << 62);
    require(contains(said, "is too large for every matrix of the model; give a rank of at most 21"), said);
    said = words(vectors.parameters, 1);
    require(contains(said, "the model has no matrix that two thin ones are smaller than"), said);
    const Error error =
        error_of([&] { make(0, comm, one.parameters, {.compression = PowerSgd{.rank = comm.rank() == 0 ? 1U : 2U}}); });
    require(contains(error.what(), "PowerSgd of rank 2, seed 1"), error.what());
  });
}

}  // namespace
}  // namespace tutti
