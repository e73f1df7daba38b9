// Costs that were found on other machines, carried over to this one.
#include "topology/speeds.h"

#include <gtest/gtest.h>

#include <set>

#include "topology/built_in.h"
#include "tutti/types.h"

namespace tutti::topology {
namespace {

Speeds some_speeds() {
  Speeds speeds;
#define X(member, meaning) speeds.member = 1e-9;
  TUTTI_SPEEDS(X)
#undef X
  return speeds;
}

TEST(Speeds, CarryRatesOver) {
  const Rates rates = usual_costs(2).memory;
  const Speeds there = some_speeds();
  EXPECT_EQ(carried_over(rates, true, there, there), rates);
  Speeds here = there;
  here.line *= 6;
  Rates slower = carried_over(rates, true, there, here);
  EXPECT_DOUBLE_EQ(slower.message, 3 * rates.message);
  EXPECT_DOUBLE_EQ(slower.progress, 3 * rates.progress);
  EXPECT_DOUBLE_EQ(slower.copy, rates.copy);
  here = there;
  here.copy *= 4;
  slower = carried_over(rates, true, there, here);
  EXPECT_DOUBLE_EQ(slower.reduce, 2 * rates.reduce);
  EXPECT_DOUBLE_EQ(slower.far, rates.far / 2) << "beyond the caches it is as quick as it was";
  here = there;
  here.send /= 8;
  EXPECT_EQ(carried_over(rates, true, there, here), rates) << "TCP has no part in shared memory";
  EXPECT_DOUBLE_EQ(carried_over(rates, false, there, here).message, rates.message / 4);
}

TEST(Speeds, WhatDiffersLittleIsTheMomentAndNotTheMachine) {
  const Rates rates = usual_costs(2).memory;
  for (const double part : {0.5, 0.8, 1.3, 2.0}) {
    Speeds here = some_speeds();
    here.line *= part;
    EXPECT_EQ(carried_over(rates, true, some_speeds(), here), rates) << part;
  }
}

TEST(Speeds, WhatIsNotKnownChangesNothing) {
  const Rates rates = usual_costs(2).memory;
  EXPECT_EQ(carried_over(rates, true, Speeds(), some_speeds()), rates);
  EXPECT_EQ(carried_over(rates, true, some_speeds(), Speeds()), rates);
  EXPECT_EQ(distance(Speeds(), some_speeds()), 0);
}

TEST(Speeds, AreReadAsTheyWereWritten) {
  Speeds speeds = some_speeds();
  speeds.turn = 2.5e-6;
  EXPECT_EQ(speeds_from_text(to_text(speeds)), speeds);
}

TEST(BuiltInCosts, KnowEveryAlgorithmThatIsChosenAmong) {
  const CostTable table = built_in_costs(2, Speeds());
  for (const bool memory : {true, false}) {
    for (const int ranks : {2, 4, 8}) {
      const Survey* const survey = nearest_survey(table, memory, ranks);
      ASSERT_NE(survey, nullptr);
      EXPECT_EQ(survey->ranks, ranks);
    }
  }
  std::set<std::string> verbs;
  for (const auto& [name, factors] : nearest_survey(table, true, 2)->factors)
    verbs.insert(name.substr(0, name.find('/')));
  for (const Verb verb : {Verb::all_reduce, Verb::broadcast, Verb::scan, Verb::send_recv, Verb::barrier})
    EXPECT_TRUE(verbs.contains(std::string(name_of(verb)))) << name_of(verb);
}

TEST(BuiltInCosts, GoByHowManyRanksShareACore) {
  EXPECT_EQ(nearest_survey(built_in_costs(64, Speeds()), true, 16)->rates.cores, 16);
  EXPECT_EQ(nearest_survey(built_in_costs(4, Speeds()), true, 8)->rates.cores, 2);
}

TEST(BuiltInCosts, FollowTheSpeedsOfThisMachine) {
  Speeds here;
  here.line = 1e-7;
  const CostTable before = built_in_costs(2, here);
  here.line *= 6;
  const CostTable after = built_in_costs(2, here);
  for (const int ranks : {2, 8}) {
    EXPECT_GT(nearest_survey(after, true, ranks)->rates.message,
              2 * nearest_survey(before, true, ranks)->rates.message);
    EXPECT_EQ(nearest_survey(after, true, ranks)->factors, nearest_survey(before, true, ranks)->factors);
  }
}

}  // namespace
}  // namespace tutti::topology
