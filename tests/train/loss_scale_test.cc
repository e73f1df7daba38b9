// Loss scales: what overflows anywhere is skipped everywhere, and the scale shrinks, grows or stays.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::fill;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::require;
using testing::value_of;
using train::Strategy;

TEST(LossScale, ShrinksWhereGradientsOverflowAndGrowsAgain) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy =
          make(stage, comm, ones.parameters,
               {.loss_scale = train::LossScale{.initial = 8, .growth = 2, .backoff = 0.5, .interval = 2}}, ones.plain);
      const auto step = [&](float gradient) {
        strategy.zero_gradients();
        for (const std::size_t i : {1, 0}) {
          fill(strategy, i, gradient * static_cast<float>(strategy.loss_scale()));
          strategy.ready(i);
        }
        return strategy.step();
      };
      require(!step(1).skipped && value_of(strategy, 0) == 0, "the scale is taken out again");
      const bool bad_here = comm.rank() == 1;
      require(step(bad_here ? INFINITY : 1).skipped, "one rank's overflow is everybody's");
      require(strategy.loss_scale() == 4 && value_of(strategy, 0) == 0, "nothing was updated");
      require(!step(1).skipped && strategy.loss_scale() == 4, "not yet");
      require(!step(1).skipped && strategy.loss_scale() == 8, "two good steps");
      require(value_of(strategy, 0) == -2, "three updates");
    });
  }
}

// A run that goes on with a shorter interval has counted beyond it already.
TEST(LossScale, GrowsWhereMoreStepsThanItsIntervalWereGood) {
  on_ranks(1, [&](Communicator& comm) {
    const Ones ones;
    Strategy strategy =
        make(0, comm, ones.parameters, {.loss_scale = train::LossScale{.initial = 8, .interval = 2}}, ones.plain);
    const auto step = [&] {
      strategy.zero_gradients();
      for (const std::size_t i : {1, 0}) strategy.ready(i);
      strategy.step();
      return strategy.loss_scale();
    };
    strategy.owned();
    strategy.restored(5, 8, 7);
    require(step() == 16 && step() == 16 && step() == 32, "at once, and then after its interval");
    for (const double none : {0.0, -1.0, static_cast<double>(INFINITY)})
      require(contains(error_of([&] { strategy.restored(5, none); }).what(), "loss scale"), "a scale that is none");
    require(strategy.loss_scale() == 32, "as it was");
  });
}

// As strategies need that train by one loss: whatever one of them skips, the scale is the other's.
TEST(LossScale, StaysWhereItIsToStay) {
  on_ranks(1, [&](Communicator& comm) {
    const Ones ones;
    constexpr train::LossScale kStays{.initial = 8, .growth = 1, .backoff = 1, .interval = 1};
    static_assert(stays(kStays) && !stays(train::LossScale{}) && !stays(train::LossScale{.growth = 1}) &&
                  !stays(train::LossScale{.backoff = 1}));
    Strategy strategy = make(0, comm, ones.parameters, {.loss_scale = kStays}, ones.plain);
    for (const float gradient : {8.0F, INFINITY, 8.0F}) {
      strategy.zero_gradients();
      for (const std::size_t i : {1, 0}) {
        fill(strategy, i, gradient);
        strategy.ready(i);
      }
      require(strategy.step().skipped == std::isinf(gradient) && strategy.loss_scale() == 8, "the same scale");
    }
    require(value_of(strategy, 0) == -1, "two updates by 1");
  });
}

// Gradients of 4 do not fit into float16 once they are multiplied by 32768, nor by 16384, on one rank of two.
TEST(LossScale, ShrinksUntilGradientsOf16BitsFit) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      testing::Bytes ones(6 * size_of(DType::float16));
      testing::from_floats(std::vector<float>(6, 1.0F), DType::float16, ones.data());
      const train::Parameters parameters{{.name = "w", .type = DType::float16, .shape = {6}, .values = ones.data()}};
      Strategy strategy = make(stage, comm, parameters, {.loss_scale = train::LossScale{.initial = 32768}},
                               train::Sgd{.learning_rate = 0.25});
      const auto first_value = [&] {
        strategy.gather(0);
        const float value = testing::to_floats(strategy.values(0), DType::float16, 6)[5];
        strategy.release(0);
        return value;
      };
      const auto step = [&] {
        strategy.zero_gradients();
        const auto scaled = static_cast<float>((comm.rank() == 0 ? 2 : 4) * strategy.loss_scale());
        testing::from_floats(std::vector<float>(6, scaled), DType::float16, strategy.gradient(0));
        strategy.ready(0);
        return strategy.step();
      };
      for (const double shrunk : {16384, 8192}) {
        require(step().skipped && strategy.loss_scale() == shrunk && first_value() == 1, "skipped everywhere");
      }
      const train::StepResult fits = step();
      require(!fits.skipped && strategy.loss_scale() == 8192 && first_value() == 0.25F, "1 - 0.25 * 3");
    });
  }
}

}  // namespace
}  // namespace tutti
