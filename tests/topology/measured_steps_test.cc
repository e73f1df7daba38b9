// Steps of strategies, as surveys keep them: read as they were written, refused where they are damaged, and found for
// groups of other sizes.
#include "topology/measured_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "topology/rates.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<MeasuredStep> kMeasured{{0, 4096, 2, 1.5e-5}, {0, 1 << 20, 2, 9e-5}, {3, 4096, 6, 2.5e-4}};

CostTable costs_with(const std::vector<MeasuredStep>& steps, int ranks = 2) {
  CostTable costs = usual_costs(4);
  put_survey(costs, {.ranks = ranks, .rates = costs.memory, .steps = steps});
  return costs;
}

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(steps_from_text(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(MeasuredSteps, AreReadAsTheyWereWritten) {
  EXPECT_EQ(steps_from_text(to_text(kMeasured)), kMeasured);
  EXPECT_EQ(steps_from_text(to_text(std::vector<MeasuredStep>())), std::vector<MeasuredStep>());
  const CostTable with = costs_with(kMeasured), without = costs_with({});
  EXPECT_EQ(costs_from_text(to_text(with)), with);
  EXPECT_EQ(costs_from_text(to_text(with)).surveys.front().steps, kMeasured);
  EXPECT_THAT(to_text(without), Not(HasSubstr("\"steps\""))) << "as files were before there were any";
  EXPECT_EQ(costs_from_text(to_text(without)), without);
}

TEST(MeasuredSteps, DamagedOnesAreRefusedWithTheReason) {
  const auto one = [](const std::string& step) { return complaint("[" + step + "]"); };
  for (const char* damage : {"null", "3", "{}", "\"fast\"", "["})
    EXPECT_THAT(complaint(damage), HasSubstr("not a JSON list"));
  EXPECT_THAT(one("7"), HasSubstr("one is not an object"));
  EXPECT_THAT(one(R"({"stage":0,"bytes":4096,"buckets":2})"), HasSubstr("'seconds' is not a number"));
  EXPECT_THAT(one(R"({"stage":4,"bytes":4096,"buckets":2,"seconds":1})"), HasSubstr("'stage' is out of range"));
  EXPECT_THAT(one(R"({"stage":0.5,"bytes":4096,"buckets":2,"seconds":1})"), HasSubstr("'stage' is out of range"));
  EXPECT_THAT(one(R"({"stage":0,"bytes":0,"buckets":2,"seconds":1})"), HasSubstr("'bytes' is out of range"));
  EXPECT_THAT(one(R"({"stage":0,"bytes":4096,"buckets":1e12,"seconds":1})"), HasSubstr("'buckets' is out of range"));
  EXPECT_THAT(one(R"({"stage":0,"bytes":4096,"buckets":2,"seconds":-1})"), HasSubstr("'seconds' is negative"));
  EXPECT_THAT(one(R"({"stage":0,"bytes":4096,"buckets":2,"seconds":0})"), HasSubstr("takes no time"));
  const std::string step = R"({"stage":0,"bytes":4096,"buckets":2,"seconds":1})";
  EXPECT_THAT(one(step + "," + step), HasSubstr("one is there twice"));
  EXPECT_THAT(one("7"), HasSubstr("`tutti tune` measures them anew"));
}

TEST(MeasuredSteps, AreThoseOfTheGroupThatIsTheMostAlike) {
  CostTable costs = usual_costs(16);
  EXPECT_EQ(survey_of_steps_for(costs, 4), std::nullopt);
  std::vector<MeasuredStep> of_eight = kMeasured;
  of_eight[0].seconds *= 4;
  of_eight.pop_back();
  put_survey(costs, {.ranks = 2, .rates = costs.memory, .steps = kMeasured});
  put_survey(costs, {.ranks = 4, .rates = costs.memory});
  put_survey(costs, {.ranks = 8, .rates = costs.memory, .steps = of_eight});
  put_survey(costs, {.ranks = 4, .hosts = 2, .rates = costs.memory, .steps = of_eight});
  EXPECT_EQ(survey_of_steps_for(costs, 2).value().steps, kMeasured);
  EXPECT_EQ(survey_of_steps_for(costs, 16).value().steps, of_eight) << "beyond the last";
  EXPECT_EQ(survey_of_steps_for(costs, 16).value().ranks, 8);
  EXPECT_EQ(survey_of_steps_for(costs, 4).value().ranks, 4);
  const std::vector<MeasuredStep> of_four = survey_of_steps_for(costs, 4).value().steps;
  ASSERT_EQ(of_four.size(), kMeasured.size()) << "between two that were measured, on one host";
  EXPECT_NEAR(of_four[0].seconds, 2 * kMeasured[0].seconds, 1e-9);
  EXPECT_EQ(of_four[2], kMeasured[2]) << "which one of the two lacks";
}

}  // namespace
}  // namespace tutti::topology
