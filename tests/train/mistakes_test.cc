// What goes wrong in training: models that differ, gradients that never come, calls out of turn, ranks that die; all
// told in words, with rank, parameter and remedy.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <initializer_list>
#include <string>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "train/saved_folder.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::Ranks;
using testing::require;
using testing::ToyModel;
using train::Strategy;
using train::StrategyOptions;

// ---- Errors.

TEST(Mistakes, ModelsThatDifferNameRankAndParameter) {
  on_ranks(3, [&](Communicator& comm) {
    Ones ones;
    if (comm.rank() == 2) ones.parameters[1].shape = {1, 2};
    const Error error = error_of([&] { make(0, comm, ones.parameters); });
    require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
    require(contains(error.what(),
                     "rank 2 has parameter \"b\", float32 [1, 2] where rank 0 has parameter \"b\", "
                     "float32 [2]; build the same model with the same settings on all ranks"),
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

TEST(Mistakes, SettingsThatDifferInTheirLastDigitsAreNamed) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    const auto refused = [&](const train::Optimizer(&optimizers)[2], const StrategyOptions(&options)[2],
                             const std::string& words) {
      const auto own = static_cast<std::size_t>(comm.rank());
      const Error error = error_of([&] { make(0, comm, ones.parameters, options[own], optimizers[own]); });
      require(error.peer() == 1 && contains(error.what(), words), error.what());
    };
    const auto optimizers_differ = [&](const train::Optimizer& one, const train::Optimizer& other,
                                       const std::string& words) {
      refused({one, other}, {{}, {}}, words);
    };
    optimizers_differ(train::Sgd{.learning_rate = 1e-7}, train::Sgd{.learning_rate = 2e-7}, "optimizer Sgd 2e-07");
    optimizers_differ(train::AdamW{.weight_decay = 1e-9}, train::AdamW{.weight_decay = 3e-9}, " 3e-09");
    optimizers_differ(train::AdamW{.beta2 = 0.9999999}, train::AdamW{.beta2 = 0.99999991}, "0.99999991");
    optimizers_differ(train::AdamW{.epsilon = 1e-13}, train::AdamW{.epsilon = 1e-14}, "1e-14");
    const auto options_differ = [&](const StrategyOptions& one, const StrategyOptions& other,
                                    const std::string& words) {
      refused({train::AdamW{}, train::AdamW{}}, {one, other}, words);
    };
    options_differ({.clip_norm = 1e-7}, {.clip_norm = 2e-7}, "clip_norm 2e-07");
    const auto scales_differ = [&](const train::LossScale& other, const std::string& words) {
      options_differ({.loss_scale = train::LossScale{}}, {.loss_scale = other}, words);
    };
    scales_differ({.initial = 65537}, "loss_scale 65537, times 2 after 2000 steps, times 0.5 where it overflows");
    scales_differ({.growth = 4}, "times 4 after 2000 steps");
    scales_differ({.backoff = 0.25}, "times 0.25 where it overflows");
    scales_differ({.interval = 1000}, "after 1000 steps");
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
    const auto scale_words = [&](const train::LossScale& scale) {
      return words(ones.parameters, 0, {.loss_scale = scale});
    };
    require(contains(scale_words({.initial = 0}), "the loss scale begins at 0; give a number above 0"), "initial");
    require(contains(scale_words({.growth = 0.5}), "the loss scale grows 0.5 times; give a number from 1 on"),
            "growth");
    require(contains(scale_words({.backoff = 2}), "becomes 2 of itself where it overflows"), "backoff");
    for (const int interval : {0, -1})
      require(contains(scale_words({.interval = interval}),
                       "grows after " + std::to_string(interval) + " steps without overflow; give a number from 1 on"),
              "interval");
  });
}

TEST(Mistakes, InAStepNameTheParameterAndTheRemedy) {
  for (const int stage : kStages) {
    on_ranks(1, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters);
      const auto refused = [](auto&& call, std::initializer_list<const char*> words) {
        const std::string said = error_of(call).what();
        for (const char* const word : words) require(contains(said, word), said);
      };
      const std::int64_t shape[] = {3};
      refused([&] { strategy.ready(0, shape); },
              {"rank 0, parameter \"a\": its shape was [4]", "gradient's is [3]", "make a new strategy"});
      refused([&] { strategy.check_gradient(0, DType::float32, shape); },
              {"rank 0, parameter \"a\": its shape was [4]"});
      const std::int64_t right_shape[] = {4};
      refused([&] { strategy.check_gradient(0, DType::float64, right_shape); },
              {"rank 0, parameter \"a\": its type is float32", "gradient's float64; convert the gradient"});
      strategy.check_gradient(0, DType::float32, right_shape);
      refused([&] { strategy.ready(2); }, {"no parameter 2", "0 .. 1"});
      strategy.ready(0);
      refused([&] { strategy.ready(0); },
              {"rank 0, parameter \"a\": ready() came twice", "call step() after each", "no_sync()"});
      refused([&] { strategy.zero_gradients(); }, {"being averaged", "call it after step()"});
      refused([&] { strategy.weight(1); }, {"before the backward"});
      refused([&] { strategy.step(); }, {"rank 0: no gradient came of \"b\"", "call ready() for every parameter"});
    });
  }
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

// Ranks that are in no step yet settle where all lies, together: none may be left waiting there.
TEST(Mistakes, SavingAndLoadingWithinAStepAreToldEverywhere) {
  const ToyModel model;
  for (const int stage : {0, 1, 3}) {
    const testing::SavedFolder folder;
    on_ranks(2, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model.parameters), other = make(stage, comm, model.parameters);
      train::Checkpoints checkpoints(comm, folder.path());
      checkpoints.save(other, {.step = 1});
      const bool begins = comm.rank() == 1;
      const auto both_fail = [&](const std::string& words) {
        for (const bool saves : {true, false}) {
          const Error error = error_of([&] {
            if (saves) checkpoints.save(strategy, {.step = 2});
            if (!saves) checkpoints.load(strategy);
          });
          require(error.peer() == 1, "who is within a step");
          require(contains(error.what(), (saves ? "rank 1: save() " : "rank 1: load() ") + words), error.what());
        }
      };
      if (begins) strategy.gradient(0);
      if (begins) strategy.ready(0);
      both_fail("between ready() and step()");
      for (std::size_t i = begins ? 1 : 0; i < strategy.size(); ++i) {
        strategy.gradient(i);
        strategy.ready(i);
      }
      strategy.step();
      if (stage == 3) {
        strategy.gather(0);
        if (!begins) strategy.release(0);
        both_fail("while unit 0 is gathered");
        if (begins) strategy.release(0);
      }
      checkpoints.save(strategy, {.step = 2});
      require(checkpoints.load(strategy)->step == 2, "between steps");
    });
  }
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
void kills_a_rank(Ranks kind, int stage) {
  const auto ends = testing::run_ranks(kind, 3, [&](Communicator& comm) {
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

TEST(KilledRanks, AreNamedByEverySurvivor) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp})
    for (const int stage : kStages) kills_a_rank(kind, stage);
}

}  // namespace
}  // namespace tutti
