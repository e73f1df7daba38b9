// Plans for a host whose steps were timed: exact where one was timed, in between elsewhere, and the prices of calls by
// themselves where none was.
#include "plan/step_prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/host_prices.h"
#include "plan/plan.h"

namespace tutti::plan {
namespace {

using topology::MeasuredStep;

constexpr double kMB = 1 << 20;

double bytes_of(const MeasuredStep& step) { return static_cast<double>(step.bytes); }

const std::vector<MeasuredStep>& timed_steps() {
  static const std::vector<MeasuredStep> kSteps = [] {
    std::vector<MeasuredStep> steps;
    for (const int stage : {0, 1, 2, 3}) {
      const int buckets = stage == 3 ? 6 : 2;
      for (const std::uint64_t bytes : {4UL << 10, 256UL << 10, 1UL << 20, 16UL << 20})
        steps.push_back({stage, bytes, buckets, buckets * (2e-5 + 1e-10 * static_cast<double>(bytes)) * (stage + 1)});
      steps.push_back({stage, 16 << 20, 32, 32 * 8e-3});  // beyond the caches
    }
    return steps;
  }();
  return kSteps;
}

topology::CostTable costs_with(const std::vector<MeasuredStep>& steps) {
  topology::CostTable costs = topology::usual_costs(4);
  put_survey(costs, {.ranks = 2, .rates = costs.memory, .steps = steps});
  return costs;
}

TEST(StepPrices, AreExactWhereAStepWasTimed) {
  const StepPrices prices(timed_steps());
  for (const MeasuredStep& step : timed_steps()) {
    const double bytes = bytes_of(step), seconds = prices.seconds(step.stage, bytes, step.buckets * bytes);
    EXPECT_NEAR(step.buckets * seconds / step.seconds, 1, 1e-9) << "stage " << step.stage << ", " << step.bytes;
  }
  EXPECT_EQ(prices.buckets(0), 2);
  EXPECT_EQ(prices.buckets(3), 6);
}

TEST(StepPrices, LieInBetweenElsewhere) {
  const StepPrices prices(timed_steps());
  double before = 0;
  for (double bytes = 64; bytes < 64 * kMB; bytes *= 1.5) {
    const double seconds = prices.seconds(0, bytes, 2 * bytes);
    EXPECT_GE(seconds, before) << bytes;
    before = seconds;
  }
  EXPECT_EQ(prices.seconds(0, 64, 128), prices.seconds(0, 4 << 10, 8 << 10)) << "no quicker than the smallest";
  // A larger model's are further from the caches: all that its bytes take, and nothing of what a call takes at all.
  const double near = prices.seconds(0, 0.5 * kMB, kMB), far = prices.seconds(0, 0.5 * kMB, 512 * kMB);
  EXPECT_GT(far, 2 * near);
  EXPECT_NEAR(prices.seconds(0, 4 << 10, 512 * kMB), prices.seconds(0, 4 << 10, 8 << 10), 1e-12);
  EXPECT_NEAR(prices.seconds(0, 25 * kMB, 4096 * kMB), 25. / 16 * 8e-3, 1e-12) << "no slower than the largest";
}

TEST(StepPrices, AFewQuickOnesWillDo) {
  const StepPrices prices({{0, 4096, 2, 2e-5}, {1, 64 << 10, 2, 1e-4}});
  EXPECT_TRUE(prices.knows(0));
  EXPECT_FALSE(prices.knows(3));
  EXPECT_NEAR(prices.seconds(0, 8192, 8192), 2e-5, 1e-12) << "in proportion";
  EXPECT_NEAR(prices.seconds(1, 64 << 10, 128 << 10), 5e-5, 1e-12);
}

TEST(StepPrices, WhereNoneWereTimedCallsAreAsTheyArePredicted) {
  HostPrices without({costs_with({}), true, 4, 0}), with({costs_with(timed_steps()), true, 4, 0});
  for (const int stage : {0, 1, 2, 3}) EXPECT_EQ(without.factor_in_step(stage, 2, kMB, 4 * kMB), 1);
  for (const Verb verb : {Verb::all_reduce, Verb::all_gather})
    EXPECT_EQ(with.price(verb, 2, kMB).seconds, without.price(verb, 2, kMB).seconds) << "blocking calls are as ever";
}

// A group that was not timed takes as many times its own prices as the one that is the most like it.
TEST(StepPrices, GroupsOfOtherSizesGoByTheFactorsOfThoseThatWereTimed) {
  HostPrices prices({costs_with(timed_steps()), true, 4, 0});
  for (const int stage : {0, 1, 2, 3}) {
    const double timed = prices.factor_in_step(stage, 2, kMB, 2 * kMB);
    EXPECT_NE(timed, 1);
    for (const int ranks : {3, 4, 16}) EXPECT_EQ(prices.factor_in_step(stage, ranks, kMB, 2 * kMB), timed) << ranks;
  }
}

// Models of buckets alike, as those that were timed, by the phrases of a plan.
TEST(StepPrices, APlanOfWhatWasTimedSaysWhatItTook) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const MeasuredStep& step : timed_steps()) {
      if (step.stage != stage) continue;
      HostPrices prices({costs_with(timed_steps()), true, 4, 0});
      const double bytes = bytes_of(step), factor = prices.factor_in_step(stage, 2, bytes, step.buckets * bytes);
      const auto price = [&](Verb verb) { return factor * prices.price(verb, 2, bytes).seconds; };
      const int buckets = std::min(step.buckets, stage == 3 ? 6 : 2);
      double planned = price(Verb::all_reduce);
      if (stage > 0) planned = price(Verb::reduce_scatter) + price(Verb::all_gather) * (stage == 3 ? 9. / buckets : 1);
      EXPECT_NEAR(planned * step.buckets / step.seconds, 1, 1e-9) << "stage " << stage << ", " << step.bytes;
    }
  }
}

double communication_s(const std::vector<MeasuredStep>& steps, const char* strategy) {
  const JobWords words{{"cluster", "here"}, {"gpus", "2"},         {"layers", "4"}, {"hidden", "64"},
                       {"heads", "4"},      {"vocab", "2000"},     {"seq", "64"},   {"micro-batch", "1"},
                       {"overlap", "none"}, {"strategy", strategy}};
  const Job job = question_of(words, {}, [&] { return HostCosts{costs_with(steps), true, 2, 1e12}; }).job;
  CollectivePrices prices = prices_for(job);
  const JobPlan plan = plan_job(job, prices);
  if (job.parallel.zero < 3) {
    EXPECT_NEAR(plan.time.dp, plan.communication_s, 1e-9 * plan.time.dp)
        << strategy << ": none is hidden, all is billed";
  }
  return plan.communication_s;
}

TEST(StepPrices, PlansForThisHostGoByThem) {
  std::vector<MeasuredStep> twice = timed_steps();
  for (MeasuredStep& step : twice) step.seconds *= 2;
  for (const char* strategy : {"dp", "zero1", "zero2", "zero3"}) {
    const double once = communication_s(timed_steps(), strategy);
    EXPECT_NEAR(communication_s(twice, strategy), 2 * once, 1e-6 * once) << strategy;
    EXPECT_NE(communication_s({}, strategy), once) << strategy;
  }
}

}  // namespace
}  // namespace tutti::plan
