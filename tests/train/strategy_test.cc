// How strategies behave: accumulation, unused parameters, uneven batches, threads, the first step's order, and what a
// report tells.
#include "tutti/train/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::fill;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::OneProcess;
using testing::Ones;
using testing::Ranks;
using testing::require;
using testing::ToyModel;
using testing::value_of;
using train::Strategy;
using train::StrategyOptions;

TEST(FirstValues, AreThoseOfRankZero) {
  for (const int stage : kStages) {
    on_ranks(3, [&](Communicator& comm) {
      Ones ones;
      std::iota(ones.values.begin(), ones.values.end(), static_cast<float>(10 * (comm.rank() + 1)));
      Strategy strategy = make(stage, comm, ones.parameters);
      std::vector<float> values;
      strategy.gather(0);
      for (std::size_t i = 0; i < strategy.size(); ++i)
        for (const float value : strategy.values_as<const float>(i)) values.push_back(value);
      strategy.release(0);
      require(values == std::vector<float>{10, 11, 12, 13, 14, 15}, "stage " + std::to_string(stage));
      strategy.verify();
    });
  }
}

TEST(Accumulation, SendsOnceForAllMicroBatches) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {}, ones.plain);
      for (int step = 0; step < 3; ++step) {
        const std::uint64_t before = strategy.counters()[stage == 0 ? Verb::all_reduce : Verb::reduce_scatter].calls;
        strategy.zero_gradients();
        {
          const train::NoSync pause = strategy.no_sync();
          for (int micro = 0; micro < 2; ++micro) {
            for (const std::size_t i : {1, 0}) {
              fill(strategy, i, 1);
              strategy.ready(i);
            }
          }
        }
        for (const std::size_t i : {1, 0}) {
          fill(strategy, i, static_cast<float>(2 * comm.rank()));
          strategy.ready(i);
        }
        strategy.step();
        const std::uint64_t after = strategy.counters()[stage == 0 ? Verb::all_reduce : Verb::reduce_scatter].calls;
        require(after - before == 1, "one call");
      }
      // Each step: the mean of 2 and 2 + 2.
      require(value_of(strategy, 0) == 1 - 3 * 3, "three steps of 3");
    });
  }
}

// The first is copied, what follows is added, whichever way it comes; memory that was lent before has other numbers.
TEST(Accumulation, AddsGradientsThatLieElsewhere) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {.unused_parameters = true}, ones.plain);
      const std::vector<float> twos(4, 2.0F);
      for (int step = 0; step < 2; ++step) {
        strategy.zero_gradients();
        {
          const train::NoSync pause = strategy.no_sync();
          strategy.add_gradient(0, twos.data());
          if (step == 0) fill(strategy, 1, 8);
          strategy.ready(0);
        }
        strategy.add_gradient(0, twos.data());
        fill(strategy, 0, 1);
        strategy.ready(0);
        if (step == 0) {
          strategy.add_gradient(1, twos.data());
          strategy.ready(1);
        }
        strategy.step();
      }
      require(value_of(strategy, 0) == 1 - 5 - 5, "2 and 2 and 1, twice");
      require(value_of(strategy, 1) == 1 - 10, "8 and 2, and nothing in the second step");
    });
  }
}

// What an earlier step left is not in the next one, and what came before in the same step only where it is added to.
TEST(Accumulation, ForgottenGradientsAreCopiedOverOrZero) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {.unused_parameters = true}, ones.plain);
      const std::vector<float> twos(4, 2.0F), fours(4, 4.0F);
      for (int step = 0; step < 3; ++step) {
        strategy.forget_gradients();
        strategy.set_gradient(0, fours.data());
        strategy.set_gradient(0, twos.data());
        strategy.add_gradient(0, twos.data());
        strategy.ready(0);
        // In the second step only rank 0 comes to it, in the third nobody.
        if (step == 0 || (step == 1 && comm.rank() == 0)) {
          strategy.add_gradient(1, twos.data());
          strategy.ready(1);
        }
        require(contains(error_of([&] { strategy.forget_gradients(); }).what(),
                         "forget_gradients() between ready() and step()"),
                "refused where it would change what is on its way");
        strategy.step();
      }
      require(value_of(strategy, 0) == 1 - 3 * 4, "2 and 2, three times");
      require(value_of(strategy, 1) == 1 - 2 - 1, "2, then the mean of 2 and 0, then nothing");
    });
  }
}

// More buckets than stages 2 and 3 have buffers for, all of which are needed until the last pass.
TEST(Accumulation, OfManyBucketsGivesTheBitsOfOneProcess) {
  constexpr int kRanks = 2, kSteps = 4;
  const ToyModel model;
  const auto pass = [&](std::size_t i, const void* values, int rank, int step, int micro) {
    return testing::gradient_of(model.parameters[i], i, values, rank, 2 * step + micro);
  };
  OneProcess reference(model, train::AdamW{}, std::nullopt);
  for (int step = 0; step < kSteps; ++step) {
    reference.step([&](std::size_t i, const void* values) {
      const std::size_t elements = model.parameters[i].elements();
      std::vector<testing::Bytes> partial;
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<testing::Bytes> passes{pass(i, values, rank, step, 0), pass(i, values, rank, step, 1)};
        partial.push_back(testing::reduce_naively(DType::float32, ReduceOp::sum, std::move(passes), elements));
      }
      return testing::reduce_naively(DType::float32, ReduceOp::average, std::move(partial), elements);
    });
  }
  for (const int stage : kStages) {
    on_ranks(kRanks, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
      for (int step = 0; step < kSteps; ++step) {
        strategy.zero_gradients();
        const std::vector<testing::Bytes> values = testing::values_of(strategy, model);
        const auto backward = [&](int micro) {
          for (std::size_t i = strategy.size(); i-- > 0;) {
            const testing::Bytes gradient = pass(i, values[i].data(), comm.rank(), step, micro);
            if (!gradient.empty()) strategy.add_gradient(i, gradient.data());
            strategy.ready(i);
          }
        };
        {
          const train::NoSync pause = strategy.no_sync();
          backward(0);
        }
        backward(1);
        strategy.step();
      }
      require(strategy.report().timeline.size() > 3, "more buckets than buffers");
      require(testing::values_of(strategy, model) == reference.values(), "stage " + std::to_string(stage));
    });
  }
}

TEST(UnusedParameters, CountAsZerosWhereSomeRankUsedThemAndAreLeftAloneWhereNone) {
  for (const int stage : kStages) {
    on_ranks(3, [&](Communicator& comm) {
      const Ones ones;
      // With a decay every update is seen, also that by a gradient of zero.
      Strategy strategy = make(stage, comm, ones.parameters, {.unused_parameters = true},
                               train::Sgd{.learning_rate = 1, .weight_decay = 0.5});
      for (int step = 0; step < 2; ++step) {
        strategy.zero_gradients();
        if (comm.rank() == 1) {
          fill(strategy, 0, 3);
          strategy.ready(0);
        }
        strategy.step();
      }
      // 1 - (1 + 0.5) = -0.5, then -0.5 - (1 - 0.25).
      require(value_of(strategy, 0) == -1.25F, "the mean of 3, 0 and 0, twice");
      require(value_of(strategy, 1) == 1.0F, "nobody used it");
    });
  }
}

TEST(UnevenBatches, WeighByExamplesAndRanksThatRanOutKeepAnswering) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {}, ones.plain);
      std::vector<int> batches = comm.rank() == 0 ? std::vector{3, 2} : std::vector{1};
      int steps = 0;
      for (std::size_t batch = 0;; ++batch) {
        const double examples = batch < batches.size() ? batches[batch] : 0;
        if (strategy.weight(examples) == 0) break;
        strategy.zero_gradients();
        if (examples > 0) {
          for (const std::size_t i : {1, 0}) {
            fill(strategy, i, comm.rank() == 0 ? 4 : 8);
            strategy.ready(i);
          }
        }
        strategy.step();
        ++steps;
      }
      require(steps == 2, "as many as the longest");
      // (3 * 4 + 1 * 8) / 4 = 5, then 4 of rank 0 alone.
      require(value_of(strategy, 1) == 1 - 5 - 4, "the mean over examples");
    });
  }
}

// One more than gradients have buffers, twice, and more than are held: whoever has no examples only calls step().
// A row of units with a parameter each.
struct UnitRow {
  UnitRow() {
    for (std::size_t i = 0; i < kUnits; ++i) {
      memory.emplace_back(3000, static_cast<float>(i));
      parameters.push_back(
          {.name = "w" + std::to_string(i), .shape = {50, 60}, .values = memory.back().data(), .unit = i});
    }
  }
  static void forward(Strategy& strategy) {
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      strategy.gather(unit);
      require(strategy.values_as<float>(unit).size() == 3000, "there");
      strategy.release(unit);
    }
  }
  static void backward(Strategy& strategy, int rank) {
    for (std::size_t unit = kUnits; unit-- > 0;) {
      strategy.gather(unit);
      fill(strategy, unit, strategy.values_as<float>(unit)[0] + static_cast<float>(rank));
      strategy.release(unit);
      strategy.ready(unit);
    }
  }

  static constexpr std::size_t kUnits = 8;
  std::vector<std::vector<float>> memory;
  train::Parameters parameters;
};

TEST(Units, AStrategyMayGoWhileOneIsGatheredAndOthersAreOnTheirWay) {
  const UnitRow row;
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 3, [&](Communicator& comm) {
    {
      Strategy strategy = make(3, comm, row.parameters);
      for (int step = 0; step < 2; ++step) {
        UnitRow::forward(strategy);
        UnitRow::backward(strategy, comm.rank());
        strategy.step();
      }
      strategy.gather(0);  // and those that the last step used next
    }
    int ranks = comm.rank();
    comm.all_reduce(std::span(&ranks, 1));
    require(ranks == 3, "its communicator is as it was");
  }));
}

void run_out_and_gather(const train::Compression& compression) {
  const UnitRow row;
  std::vector<std::vector<float>> results[2];
  for (const int stage : {0, 3}) {
    testing::expect_all_ok(testing::run_ranks(Ranks::threads, 3, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, row.parameters, {.compression = compression});
      for (int step = 0; step < 5; ++step) {
        const bool has_examples = step <= comm.rank() || comm.rank() == 2;
        UnitRow::forward(strategy);  // everybody evaluates
        strategy.weight(has_examples ? 2 : 0);
        strategy.zero_gradients();
        if (has_examples) {
          UnitRow::forward(strategy);
          UnitRow::backward(strategy, comm.rank());
        }
        strategy.step();
      }
      strategy.verify();
      for (std::size_t unit = 0; unit < UnitRow::kUnits; ++unit) {
        strategy.gather(unit);
        const auto values = strategy.values_as<float>(unit);
        if (comm.rank() == 0) results[stage / 3].emplace_back(values.begin(), values.end());
        strategy.release(unit);
      }
    }));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(UnevenBatches, RanksThatRanOutGatherUnitsForTheOthers) { run_out_and_gather({}); }

// Thin matrices are two calls: a rank that waits for the second, of a bucket whose memory it needs, would wait for
// ranks that wait for its units.
TEST(UnevenBatches, RanksThatRanOutGatherUnitsWhileThinMatricesTravel) {
  run_out_and_gather(train::PowerSgd{.rank = 2});
}

// What was looked at between the step and restored() is nothing that a step uses.
TEST(UnevenBatches, RanksThatRanOutGatherUnitsAsInTheStepBeforeRestored) {
  const UnitRow row;
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
    Strategy strategy = make(3, comm, row.parameters);
    for (const bool has_examples : {true, comm.rank() == 0}) {
      strategy.weight(has_examples ? 2 : 0);
      if (has_examples) {
        UnitRow::forward(strategy);
        UnitRow::backward(strategy, comm.rank());
      }
      strategy.step();
      strategy.gather(3);
      strategy.release(3);
      strategy.owned();
      strategy.restored(strategy.updates());
    }
    strategy.verify();
  }));
}

TEST(UnevenBatches, NoExamplesInTheFirstStepAreToldWhereUnitsHaveNoOrderYet) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    Strategy strategy = make(3, comm, ones.parameters);
    strategy.weight(comm.rank() == 0 ? 1 : 0);
    const Error error = error_of([&] {
      if (comm.rank() == 0) strategy.gather(0);
      strategy.step();
    });
    require(contains(error.what(), "rank 1: has no examples in the first step"), error.what());
  });
}

TEST(NoiseScale, HasTheNormsOfRanksAndOfTheirMean) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {.measure_noise = true}, ones.plain);
      for (int step = 0; step < 2; ++step) {
        strategy.zero_gradients();
        for (const std::size_t i : {1, 0}) {
          fill(strategy, i, comm.rank() == 0 ? 1 : 3);
          strategy.ready(i);
        }
        const train::StepResult result = strategy.step();
        require(result.rank_squares == (6 * 1 + 6 * 9) / 2, "the mean of both ranks' squares");
        require(result.gradient_norm * result.gradient_norm > 23.99 && result.gradient_norm < 4.9, "six twos");
      }
    });
  }
}

// Gradients become ready on several threads at once, as those of autograd engines do.
TEST(Threads, MayCallReadyAtOnce) {
  const ToyModel model;
  OneProcess reference(model, train::AdamW{}, std::nullopt);
  constexpr int kSteps = 10;
  for (int step = 0; step < kSteps; ++step) reference.step_of_means(2, step);
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
      for (int step = 0; step < kSteps; ++step) {
        strategy.zero_gradients();
        const std::vector<testing::Bytes> values = testing::values_of(strategy, model);
        std::vector<std::thread> threads;
        for (std::size_t part = 0; part < 3; ++part) {
          threads.emplace_back([&, part] {
            for (std::size_t i = part; i < strategy.size(); i += 3) {
              const testing::Bytes gradient =
                  testing::gradient_of(model.parameters[i], i, values[i].data(), comm.rank(), step);
              void* place = strategy.gradient(i);
              if (!gradient.empty()) std::memcpy(place, gradient.data(), gradient.size());
              strategy.ready(i);
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        strategy.step();
      }
      require(testing::values_of(strategy, model) == reference.values(), "the same bits");
    });
  }
}

TEST(FirstStep, LaysBucketsOutInTheOrderOfRankZero) {
  const ToyModel model;
  on_ranks(2, [&](Communicator& comm) {
    std::vector<void*> values(model.parameters.size());
    int told = 0;
    StrategyOptions options;
    options.bucket_bytes = 1;  // a bucket for each
    options.placed = [&](std::size_t i, void* place, void*) {
      values[i] = place;
      ++told;
    };
    Strategy strategy = make(1, comm, model.parameters, options);
    require(told == 8, "told when it was made");
    strategy.zero_gradients();
    for (std::size_t i = 0; i < strategy.size(); ++i) strategy.ready(comm.rank() == 0 ? i : strategy.size() - 1 - i);
    strategy.step();
    require(told == 16, "told when the places changed");
    for (std::size_t i = 0; i < strategy.size(); ++i) require(values[i] == strategy.values(i), "the place it told");
    const train::Report report = strategy.report();
    require(report.timeline[0].bytes == 2048 * sizeof(float) && report.timeline.size() == 8,
            "the first bucket is rank 0's first gradient");
    testing::train_step(strategy, model, comm.rank(), 1);
    require(told == 16, "places stay");
  });
}

TEST(Reports, TellSentenceBytesAndTimes) {
  const ToyModel model;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(1, comm, model.parameters, {.bucket_bytes = 10'000});
    require(!contains(to_text(strategy.report()), "last step"), "no step yet");
    for (int step = 0; step < 2; ++step) testing::train_step(strategy, model, comm.rank(), step);
    const train::Report report = strategy.report();
    const std::string text = to_text(report);
    for (const char* part : {"ZeRO stage 1, 2 ranks, after 2 steps", "reduce_scatter", "all_gather", "model states",
                             "computing", "communication over computation", "exposed ms"})
      require(contains(text, part), part);
    require(contains(to_json(report), "\"each_step\": [{\"verb\": \"reduce_scatter\""), "json");
    require(contains(to_svg(report), "<svg "), "svg");
    require(report.timeline.size() == report.each_step.size() / 2, "a row per bucket");
    for (const train::BucketTimes& bucket : report.timeline)
      require(bucket.start_us >= bucket.ready_us && bucket.end_us >= bucket.start_us, "ready, start, end");
    require(report.times.total_us >= report.times.computing_us, "times add up");
  });
}

// What all ranks own together, by parameter: masters, and both states.
struct Saved {
  explicit Saved(const ToyModel& model) {
    for (const train::Parameter& parameter : model.parameters)
      for (auto& array : arrays) array.emplace_back(parameter.elements());
  }
  static std::vector<float*> places(const train::OwnedPart& part) {
    return {part.shard.master, part.shard.states[0], part.shard.states[1]};
  }
  void take(Strategy& strategy) {
    updates = strategy.updates();
    for (const train::OwnedPart& part : strategy.owned())
      for (std::size_t k = 0; k < 3; ++k)
        std::copy_n(places(part)[k], part.count,
                    arrays[k][part.parameter].begin() + static_cast<std::ptrdiff_t>(part.first));
  }
  void give(Strategy& strategy) const {
    for (const train::OwnedPart& part : strategy.owned())
      for (std::size_t k = 0; k < 3; ++k)
        std::copy_n(arrays[k][part.parameter].begin() + static_cast<std::ptrdiff_t>(part.first), part.count,
                    places(part)[k]);
    strategy.restored(updates);
  }

  std::vector<std::vector<float>> arrays[3];
  std::int64_t updates = 0;
};

// The stage before, and the type of values.
class OwnedPartsOf : public ::testing::TestWithParam<std::tuple<int, DType>> {};

// What ranks own under one strategy goes on under another to the bits of a run that was never disturbed.
TEST_P(OwnedPartsOf, GoOnUnderAnotherStrategy) {
  constexpr int kRanks = 3, kHalf = 4;
  const auto [from, type] = GetParam();
  const ToyModel model(type);
  OneProcess reference(model, train::AdamW{}, std::nullopt);
  for (int step = 0; step < 2 * kHalf; ++step) reference.step_of_means(kRanks, step);
  Saved saved(model);
  on_ranks(kRanks, [&, stage = from](Communicator& comm) {
    Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
    for (int step = 0; step < kHalf; ++step) testing::train_step(strategy, model, comm.rank(), step);
    for (int turn = 0; turn < kRanks; ++turn) {
      if (turn == comm.rank()) saved.take(strategy);
      comm.barrier();
    }
  });
  for (const int to : kStages) {
    on_ranks(kRanks, [&](Communicator& comm) {
      Strategy strategy = make(to, comm, model.parameters, {.bucket_bytes = 20'000});
      saved.give(strategy);
      for (int step = kHalf; step < 2 * kHalf; ++step) testing::train_step(strategy, model, comm.rank(), step);
      require(testing::values_of(strategy, model) == reference.values(), "to stage " + std::to_string(to));
    });
  }
}
INSTANTIATE_TEST_SUITE_P(All, OwnedPartsOf,
                         ::testing::Combine(::testing::ValuesIn(kStages),
                                            ::testing::Values(DType::float32, DType::bfloat16)),
                         [](const auto& about) {
                           return "stage_" + std::to_string(std::get<0>(about.param)) + "_" +
                                  std::string(name_of(std::get<1>(about.param)));
                         });

TEST(OwnedParts, HoldTheSameValuesOnAnotherNumberOfRanks) {
  const ToyModel model;
  Saved saved(model);
  std::vector<testing::Bytes> values;
  on_ranks(1, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model.parameters);
    testing::train_step(strategy, model, 0, 0);
    saved.take(strategy);
    values = testing::values_of(strategy, model);
  });
  for (const int stage : kStages) {
    on_ranks(4, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model.parameters, {.gathered_units = ToyModel::kUnitCount});
      strategy.verify();  // has units of stage 3 gathered, which are old values after this
      saved.give(strategy);
      require(testing::values_of(strategy, model) == values && strategy.updates() == 1, "the same values");
    });
  }
}

}  // namespace
}  // namespace tutti
