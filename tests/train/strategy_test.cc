// How strategies behave: accumulation, unused parameters, uneven batches, loss scale, threads, the first step's order,
// what a report tells, and the words for what is wrong.
#include "tutti/train/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "check.h"
#include "train/one_process.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::OneProcess;
using testing::Ranks;
using testing::require;
using testing::ToyModel;
using train::Strategy;
using train::StrategyOptions;

constexpr int kStages[] = {0, 1, 2, 3};

Strategy make(int stage, Communicator& comm, const train::Parameters& parameters, const StrategyOptions& options = {},
              const train::Optimizer& optimizer = train::AdamW{}) {
  return stage == 0 ? train::data_parallel(comm, parameters, optimizer, options)
                    : train::zero(stage, comm, parameters, optimizer, options);
}

void on_ranks(int ranks, const RankFunction& body) {
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, ranks, body));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void fill(Strategy& strategy, std::size_t parameter, float value) {
  for (float& gradient : strategy.gradient_as<float>(parameter)) gradient += value;
}

float value_of(Strategy& strategy, std::size_t parameter) {
  strategy.gather(0);
  const float value = strategy.values_as<float>(parameter)[0];
  strategy.release(0);
  return value;
}

// Two parameters of four and of two ones, trained by plain gradient descent with rate 1: values say what the mean was.
struct Ones {
  std::vector<float> values = std::vector<float>(6, 1.0F);
  train::Parameters parameters{{.name = "a", .shape = {4}, .values = values.data()},
                               {.name = "b", .shape = {2}, .values = values.data() + 4}};
  train::Optimizer plain = train::Sgd{.learning_rate = 1};
};

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

// The first is copied, what comes behind is added, whichever way it comes; memory that was lent before has other numbers.
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
TEST(UnevenBatches, RanksThatRanOutGatherUnitsForTheOthers) {
  constexpr std::size_t kUnits = 8;
  std::vector<std::vector<float>> memory;
  train::Parameters parameters;
  for (std::size_t i = 0; i < kUnits; ++i) {
    memory.emplace_back(3000, static_cast<float>(i));
    parameters.push_back({.name = "w" + std::to_string(i), .shape = {3000}, .values = memory.back().data(), .unit = i});
  }
  std::vector<std::vector<float>> results[2];
  for (const int stage : {0, 3}) {
    testing::expect_all_ok(testing::run_ranks(Ranks::threads, 3, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, parameters);
      const auto pass = [&](bool is_backward) {
        for (std::size_t turn = 0; turn < kUnits; ++turn) {
          const std::size_t unit = is_backward ? kUnits - 1 - turn : turn;
          strategy.gather(unit);
          require(strategy.values_as<float>(unit).size() == 3000, "there");
          if (is_backward) fill(strategy, unit, strategy.values_as<float>(unit)[0] + static_cast<float>(comm.rank()));
          strategy.release(unit);
          if (is_backward) strategy.ready(unit);
        }
      };
      for (int step = 0; step < 5; ++step) {
        const bool has_examples = step <= comm.rank() || comm.rank() == 2;
        pass(false);  // everybody evaluates
        strategy.weight(has_examples ? 2 : 0);
        strategy.zero_gradients();
        if (has_examples) {
          pass(false);
          pass(true);
        }
        strategy.step();
      }
      strategy.verify();
      for (std::size_t unit = 0; unit < kUnits; ++unit) {
        strategy.gather(unit);
        const auto values = strategy.values_as<float>(unit);
        if (comm.rank() == 0) results[stage / 3].emplace_back(values.begin(), values.end());
        strategy.release(unit);
      }
    }));
  }
  EXPECT_EQ(results[0], results[1]);
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

// What ranks own under one strategy goes on under another to the bits of a run that was never disturbed.
TEST(OwnedParts, GoOnUnderAnotherStrategy) {
  constexpr int kRanks = 3, kHalf = 4;
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const ToyModel model(type);
    OneProcess reference(model, train::AdamW{}, std::nullopt);
    for (int step = 0; step < 2 * kHalf; ++step) reference.step_of_means(kRanks, step);
    for (const int from : kStages) {
      Saved saved(model);
      on_ranks(kRanks, [&](Communicator& comm) {
        Strategy strategy = make(from, comm, model.parameters, {.bucket_bytes = 10'000});
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
          require(testing::values_of(strategy, model) == reference.values(),
                  "from " + std::to_string(from) + " to " + std::to_string(to));
        });
      }
    }
  }
}

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

// ---- Errors.

TEST(Mistakes, ModelsThatDifferNameRankAndParameter) {
  on_ranks(3, [&](Communicator& comm) {
    Ones ones;
    if (comm.rank() == 2) ones.parameters[1].shape = {1, 2};
    const Error error = error_of([&] { make(0, comm, ones.parameters); });
    require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
    require(contains(error.what(),
                     "rank 2 has parameter \"b\", float32 [1, 2] where rank 0 has parameter \"b\", "
                     "float32 [2]"),
            error.what());
  });
}

TEST(Mistakes, MissingParametersAndOtherSettingsAreNamed) {
  on_ranks(2, [&](Communicator& comm) {
    Ones ones;
    if (comm.rank() == 1) ones.parameters.pop_back();
    const Error shorter = error_of([&] { make(0, comm, ones.parameters); });
    require(contains(shorter.what(), "rank 1 has nothing more where rank 0 has parameter \"b\""), shorter.what());
    const Ones same;
    const Error stages = error_of([&] { make(comm.rank(), comm, same.parameters); });
    require(contains(stages.what(), "rank 1 has the settings stage 1"), stages.what());
  });
}

TEST(Mistakes, OfOneRankAreRefusedInWords) {
  on_ranks(1, [&](Communicator& comm) {
    const auto words = [&](train::Parameters parameters, int stage = 0, const StrategyOptions& options = {}) {
      return std::string(error_of([&] { make(stage, comm, parameters, options); }).what());
    };
    Ones ones;
    require(contains(words({}), "needs parameters"), "empty");
    require(contains(words({ones.parameters[0], ones.parameters[0]}), "two parameters are named \"a\""), "names");
    require(contains(words({{.name = "i", .type = DType::int32, .shape = {}}}), "only float32"), "type");
    require(contains(words({{.name = "n", .shape = {3}}}), "values are null"), "null");
    require(contains(words({{.name = "n", .shape = {-3}}}), "negative"), "shape");
    require(contains(words(ones.parameters, 4), "stage 4 is not"), "stage");
    require(contains(words(ones.parameters, 0, {.clip_norm = 0}), "above 0"), "clip");
  });
}

TEST(Mistakes, InAStepNameTheParameterAndTheRemedy) {
  on_ranks(1, [&](Communicator& comm) {
    const Ones ones;
    Strategy strategy = make(0, comm, ones.parameters);
    const auto words = [](auto&& call) { return std::string(error_of(call).what()); };
    const std::int64_t shape[] = {3};
    require(contains(words([&] { strategy.ready(0, shape); }), "\"a\": its shape was [4]"), "shape");
    require(contains(words([&] { strategy.ready(2); }), "no parameter 2"), "range");
    strategy.ready(0);
    require(contains(words([&] { strategy.ready(0); }), "\"a\": ready() came twice"), "twice");
    require(contains(words([&] { strategy.zero_gradients(); }), "being averaged"), "zeroed");
    require(contains(words([&] { strategy.weight(1); }), "before the backward"), "weight");
    const std::string never = words([&] { strategy.step(); });
    require(contains(never, "rank 0: no gradient came of \"b\""), never);
  });
}

TEST(Mistakes, WithUnitsAreToldWithTheRemedy) {
  on_ranks(1, [&](Communicator& comm) {
    Ones ones;
    const auto words = [](auto&& call) { return std::string(error_of(call).what()); };
    ones.parameters[1].unit = 2;
    require(contains(words([&] { make(3, comm, ones.parameters); }), "without gaps"), "gaps");
    ones.parameters[1].unit = 1;
    require(contains(words([&] { make(3, comm, ones.parameters, {.gathered_units = 0}); }), "gathered_units is 0"),
            "0");
    Strategy strategy = make(3, comm, ones.parameters, {.gathered_units = 1});
    require(contains(words([&] { strategy.values(1); }), "\"b\": its unit 1 is not gathered; call gather(1)"),
            "values");
    require(contains(words([&] { strategy.gather(2); }), "no unit 2"), "range");
    require(contains(words([&] { strategy.release(0); }), "not in use"), "release");
    strategy.gather(1);
    require(contains(words([&] { strategy.gather(0); }), "as many as gathered_units allows"), "limit");
    require(contains(words([&] { strategy.step(); }), "step() while unit 1 is gathered"), "step");
  });
}

// One rank goes through units in another order: both are told.
TEST(Mistakes, UnitsInAnotherOrderAreFound) {
  on_ranks(2, [&](Communicator& comm) {
    Ones ones;
    ones.parameters[1].unit = 1;
    Strategy strategy = make(3, comm, ones.parameters);
    const Error error = error_of([&] { strategy.gather(comm.rank() == 0 ? 0 : 1); });
    require(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::peer_failed, error.what());
  });
}

// In a second step; `lacks` tells which ranks have no gradient of "b".
void forgets_a_gradient(Ranks kind, int stage, const std::function<bool(int)>& lacks, const std::string& words) {
  testing::expect_all_ok(testing::run_ranks(kind, 3, [&](Communicator& comm) {
    const Ones ones;
    Strategy strategy = make(stage, comm, ones.parameters);
    const auto step = [&](bool whole) {
      strategy.zero_gradients();
      if (whole) strategy.ready(1);
      strategy.ready(0);
      strategy.step();
    };
    step(true);
    const Error error = error_of([&] { step(!lacks(comm.rank())); });
    require(error.code() == ErrorCode::invalid_argument && contains(error.what(), words), error.what());
    require(error.peer() == words[5] - '0', "who lacks it");
  }));
}

TEST(Mistakes, AGradientThatNeverCameIsToldEverywhere) {
  constexpr const char* kWords = "rank 1: no gradient came of \"b\" in this step; call ready() for every parameter";
  for (const int stage : kStages)
    for (const Ranks kind : {Ranks::threads, Ranks::tcp})
      forgets_a_gradient(
          kind, stage, [](int rank) { return rank == 1; }, kWords);
}

TEST(Mistakes, AGradientThatNobodyHasIsTold) {
  for (const int stage : kStages)
    forgets_a_gradient(
        Ranks::threads, stage, [](int) { return true; }, "rank 0: no gradient came of \"b\"");
}

// The others wait for it there, and hear why in vain.
TEST(Mistakes, AUnitThatOneRankSkipsIsToldEverywhere) {
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 3, [&](Communicator& comm) {
    Ones ones;
    ones.parameters[1].unit = 1;
    Strategy strategy = make(3, comm, ones.parameters);
    const Error error = error_of([&] {
      for (const std::size_t unit : {1, 0}) {
        if (unit == 0 && comm.rank() == 2) continue;
        strategy.gather(unit);
        strategy.release(unit);
        strategy.ready(unit);
      }
      strategy.step();
    });
    require(contains(error.what(), "rank 2: no gradient came of \"a\"") && error.peer() == 2, error.what());
  }));
}

TEST(Mistakes, ValuesThatDriftAreFoundByVerify) {
  on_ranks(3, [&](Communicator& comm) {
    const Ones ones;
    Strategy strategy = make(0, comm, ones.parameters);
    strategy.verify();
    if (comm.rank() == 2) strategy.values_as<float>(1)[0] += 1;
    const Error error = error_of([&] { strategy.verify(); });
    require(error.peer() == 2 && contains(error.what(), "rank 2 has values of \"b\""), error.what());
  });
}

// A rank that is killed in the middle of a step: every survivor's step() names it.
TEST(KilledRanks, AreNamedByEverySurvivor) {
  for (const int stage : kStages) {
    const auto ends = testing::run_ranks(Ranks::processes, 3, [&](Communicator& comm) {
      const ToyModel model;
      Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
      testing::train_step(strategy, model, comm.rank(), 0);
      if (comm.rank() == 1) {
        strategy.zero_gradients();
        for (std::size_t i = 4; i < strategy.size(); ++i) strategy.ready(i);
        ::raise(SIGKILL);
      }
      const Error error = error_of([&] { testing::train_step(strategy, model, comm.rank(), 1); });
      require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    });
    EXPECT_EQ(ends[1].signal, SIGKILL);
    EXPECT_TRUE(ends[0].ok()) << ends[0].message;
    EXPECT_TRUE(ends[2].ok()) << ends[2].message;
  }
}

}  // namespace
}  // namespace tutti
