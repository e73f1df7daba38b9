// Advice by prices that are given, against figures worked out here; and what ranks measure of themselves.
#include "tutti/train/advise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::expect_all_ok;
using testing::require;

// A model of ten matrices of a million numbers, and a vector that goes as it is.
Parameters large_model() {
  Parameters parameters;
  for (int i = 0; i < 10; ++i) parameters.push_back({.name = "w" + std::to_string(i), .shape = {1024, 1024}});
  parameters.push_back({.name = "b", .shape = {1024}});
  return parameters;
}
constexpr double kMatrices = 10 * 1024 * 1024, kVector = 1024;

// Links of two ranks: a call takes a moment, and then what a rank sends goes at so many bytes a microsecond, which is
// all bytes of an all_reduce and half of those of the others. Codes at about the rates of one core.
AdvicePrices links_of(double bytes_per_us) {
  AdvicePrices prices{.how = "given", .calls = {}, .codes = {}};
  const auto add = [&](Verb verb, double share) {
    prices.calls.push_back(
        {verb, {{1, 20 + share / bytes_per_us}, {1'000'001, 20 + share * 1'000'001 / bytes_per_us}}});
  };
  add(Verb::all_reduce, 1);
  for (const Verb verb : {Verb::reduce_scatter, Verb::all_to_all, Verb::all_gather}) add(verb, 0.5);
  prices.codes = {{"bf16", 300, 300},  {"int8", 600, 800},        {"e4m3", 900, 900},   {"int4", 800, 900},
                  {"topk", 9000, 500}, {"power_sgd", 2000, 1000}, {"one_bit", 900, 900}};
  return prices;
}

const AdvisedHook& named(const Advice& advice, const std::string& name) {
  const auto found = std::ranges::find(advice.hooks, name, &AdvisedHook::name);
  require(found != advice.hooks.end(), name);
  return *found;
}

TEST(Advise, PricesWhatTravels) {
  // 100 bytes a microsecond; one bucket each for matrices and the vector.
  AdviseOptions options;
  options.strategy.bucket_bytes = 1 << 30;
  options.local_updates = {50, 200};
  const Advice advice = advise(2, large_model(), links_of(100), options);
  const auto all_reduce = [](double bytes) { return 20 + bytes / 100; };
  const auto codes = [](double values) {
    const double chunk = values / 2, encoded = chunk + 4 * chunk / 128;
    return 20 + (8 + encoded) / 100 + 20 + encoded / 100;
  };
  const double million = 1024 * 1024, vector = 4 * kVector;
  // The first bucket is a small one: plain it has the vector, which comes first.
  EXPECT_NEAR(named(advice, "none").calls_us, all_reduce(vector) + all_reduce(4 * kMatrices), 0.1);
  EXPECT_NEAR(named(advice, "bf16").calls_us,
              all_reduce(vector) + all_reduce(2 * million) + all_reduce(2 * (kMatrices - million)), 0.1);
  EXPECT_NEAR(named(advice, "int8").calls_us, all_reduce(vector) + codes(million) + codes(kMatrices - million), 0.1);
  EXPECT_NEAR(named(advice, "int8").codes_us, 1400 * kMatrices / 1e6, 0.1);
  EXPECT_NEAR(named(advice, "local 50").calls_us, all_reduce(4 * (kMatrices + kVector)) / 50, 0.1);
  EXPECT_EQ(named(advice, "none").bytes, 4 * static_cast<std::uint64_t>(kMatrices + kVector));
  EXPECT_EQ(named(advice, "local 200").bytes, 209736U);
  EXPECT_NEAR(named(advice, "bf16").saves_us, named(advice, "none").step_us - named(advice, "bf16").step_us, 1e-6);
}

TEST(Advise, TakesNothingWhereLinksAreQuick) {
  for (const bool computes : {false, true}) {
    AdviseOptions options;
    if (computes) options.computing_us = 20'000;
    const Advice advice = advise(4, large_model(), links_of(10'000), options);
    EXPECT_EQ(advice.best().name, "none") << to_text(advice);
    EXPECT_LT(named(advice, "int8").saves_us, 0);
  }
}

TEST(Advise, TakesCodesOfEightBitsWhereLinksAreSlow) {
  // About 1 Gbit/s; what is computed is not known.
  const Advice advice = advise(2, large_model(), links_of(125));
  EXPECT_EQ(advice.best().name, "int8") << to_text(advice);
  EXPECT_GT(advice.best().saves_us, 0.5 * advice.hooks[0].step_us);
  EXPECT_TRUE(contains(advice.why, "computing_us"));
}

TEST(Advise, TakesNoMoreThanAStepNeeds) {
  // All_reduce of 42 MB takes 336 ms, codes 84.
  AdviseOptions options;
  const auto best = [&](double computing_us) {
    options.computing_us = computing_us;
    const Advice advice = advise(2, large_model(), links_of(125), options);
    return advice.best().name;
  };
  EXPECT_EQ(best(2'000'000), "none") << "backward hides it";
  EXPECT_EQ(best(300'000), "bf16") << "what is left hides behind backward";
  EXPECT_EQ(best(1'000), "local 50") << "hardly anything is computed";
  options.worth = 0.9999;
  EXPECT_EQ(best(1'000), "none") << "nothing is worth a change";
}

TEST(Advise, AStepIsNeverShorterThanWhatItComputes) {
  for (int stage = 0; stage <= 3; ++stage) {
    AdviseOptions options;
    options.stage = stage;
    options.computing_us = 50'000;
    for (const AdvisedHook& hook : advise(4, large_model(), links_of(500), options).hooks) {
      EXPECT_GE(hook.step_us, 50'000) << hook.name;
      // Beside it at most all that is said and encoded.
      EXPECT_LE(hook.step_us, 50'001 + hook.calls_us + hook.codes_us) << hook.name << " of stage " << stage;
    }
  }
}

TEST(Advise, Tells) {
  AdviseOptions options;
  options.computing_us = 1000;
  const Advice advice = advise(2, large_model(), links_of(125), options);
  const std::string text = to_text(advice), json = to_json(advice);
  for (const char* part : {"10.49 M numbers in 11 parameters, data parallel on 2 ranks, computing 1.000 ms a step",
                           "priced as given", "> local 50", "recommended: local 50: a step takes"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  for (const char* part :
       {"\"recommended\": \"local 50\"", "{\"name\": \"topk\", \"bytes\": ", "\"prices\": \"given\""})
    EXPECT_TRUE(contains(json, part)) << part << "\n" << json;
}

// 1-bit Adam is told, and recommended only where a strategy would take it.
TEST(Advise, RecommendsSignsWhereTheyAreTaken) {
  AdviseOptions options;
  options.computing_us = 1000;
  options.local_updates = {};
  AdvicePrices prices = links_of(125);
  for (CodePrice& code : prices.codes) code.before_us = code.after_us = code.name == "one_bit" ? 1 : 1e9;
  EXPECT_NE(advise(2, large_model(), prices, options).best().name, "one_bit");
  options.strategy.compress_from_step = 100;
  EXPECT_EQ(advise(2, large_model(), prices, options).best().name, "one_bit");
  options.strategy.clip_norm = 1;
  EXPECT_NE(advise(2, large_model(), prices, options).best().name, "one_bit");
}

TEST(Advise, Refuses) {
  const Parameters model = large_model();
  EXPECT_TRUE(contains(error_of([&] { (void)advise(2, {}, links_of(1)); }).what(), "no parameters"));
  EXPECT_TRUE(contains(error_of([&] { (void)advise(2, model, {}); }).what(), "no price of all_reduce"));
  EXPECT_TRUE(contains(error_of([&] { (void)advise(2, model, links_of(1), {.stage = 4}); }).what(), "stage 4"));
  EXPECT_TRUE(
      contains(error_of([&] { (void)advise(2, model, links_of(1), {.local_updates = {0}}); }).what(), "every 0"));
}

// What it says a step would say is what a strategy with that compression does say.
TEST(Advise, SaysWhatStrategiesSay) {
  expect_all_ok(testing::run_ranks(testing::Ranks::threads, 3, [](Communicator& comm) {
    const testing::ToyModel model;
    for (int stage = 0; stage <= 2; ++stage) {
      AdviseOptions options;
      options.stage = stage;
      options.strategy.bucket_bytes = 8 << 10;
      const Advice advice = advise(comm.size(), model.parameters, links_of(100), options);
      for (const AdvisedHook& hook : advice.hooks) {
        if (hook.every != 0 || hook.name == "one_bit") continue;  // which begins later, and with AdamW alone
        StrategyOptions with = options.strategy;
        with.compression = hook.compression;
        const Strategy strategy = stage == 0 ? data_parallel(comm, model.parameters, Sgd{}, with)
                                             : zero(stage, comm, model.parameters, Sgd{}, with);
        require(strategy.report().each_step == hook.each_step, hook.name + " of stage " + std::to_string(stage));
      }
    }
  }));
}

// On ranks that share memory, by what the library predicts of their calls: codes at the rate of one core lose there.
TEST(Advise, TakesNothingOverSharedMemory) {
  expect_all_ok(testing::run_ranks(testing::Ranks::processes, 2, [](Communicator& comm) {
    AdvicePrices prices = measure_prices(comm, 64 << 20, false);
    require(prices.how == "built in" || contains(prices.how, "tutti tune"), prices.how);
    prices.codes = links_of(1).codes;
    const Advice advice = advise(comm.size(), large_model(), prices);
    require(advice.best().name == "none", to_text(advice));
  }));
}

TEST(Advise, RanksAgree) {
  for (const testing::Ranks kind : testing::kAllRanks) {
    expect_all_ok(testing::run_ranks(kind, 2, [](Communicator& comm) {
      const testing::ToyModel model;
      for (const bool measure : {false, true}) {
        const Advice advice = advise(comm, model.parameters, {.computing_us = 100, .measure = measure});
        require(advice.hooks.size() == 9, "all hooks");
        require(contains(to_text(advice), "measured now") == measure, to_text(advice));
        for (const VerbPrices& prices : advice.prices.calls)
          for (const VerbPrices::Point& point : prices.points) require(point.us > 0, "measured calls");
        for (const CodePrice& price : advice.prices.codes)
          require(price.name == "none" || (price.before_us > 0 && price.after_us >= 0), price.name);
        std::string mine = to_json(advice);
        std::uint64_t length = mine.size();
        comm.broadcast(std::span(&length, 1), 0);
        std::vector<char> first(mine.begin(), mine.end());
        first.resize(length);
        comm.broadcast(first, 0);
        require(mine == std::string(first.begin(), first.end()), "the same on all ranks");
      }
    }));
  }
}

TEST(Advise, RanksWithOtherModelsAreTold) {
  expect_all_ok(testing::run_ranks(testing::Ranks::threads, 2, [](Communicator& comm) {
    const Parameters model{{.name = "w", .shape = {4, comm.rank() + 1}}};
    require(contains(error_of([&] { (void)advise(comm, model); }).what(), "advise on the same model"), "told");
  }));
}

}  // namespace
}  // namespace tutti::train
