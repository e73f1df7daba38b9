// The text form of a table of costs: what is written is read again, and what is wrong is told.
#include "topology/rates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(costs_from_text(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Rates, AreReadAsTheyWereWritten) {
  CostTable costs = usual_costs(7);
  costs.memory.step = 1.25e-8;
  costs.streams.turn = 3.5e-6;
  costs.speeds.line = 8e-8;
  put_survey(costs, {true, 2, 1, costs.memory, {{"all_reduce/ring", {1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10}}}});
  put_survey(costs, {false, 2, 1, costs.streams, {}});
  EXPECT_EQ(costs_from_text(to_text(costs)), costs);
}

TEST(Rates, WrongTextsAreRefusedWithTheReason) {
  const std::string text = to_text(usual_costs(2));
  EXPECT_NE(complaint("").find("not a JSON object"), std::string::npos);
  EXPECT_NE(complaint("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"version\": 6", "\"version\": 9")).find("version 6"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"version\": 6", "\"version\": \"1\"")).find("version 6"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"cores\":2", "\"cores\":1e300")).find("'cores'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"message\":", "\"massage\":")).find("'message'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"cores\":2", "\"cores\":0")).find("'cores'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"far\":1.0", "\"far\":-1.0")).find("'far'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"streams\"", "\"brooks\"")).find("'streams'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"speeds\"", "\"haste\"")).find("'speeds'"), std::string::npos);
  CostTable costs = usual_costs(2);
  put_survey(costs, {true, 2, 1, costs.memory, {{"scan/chain", {9, 9, 9, 9, 9, 9, 9, 9}}}});
  const std::string surveyed = to_text(costs);
  EXPECT_NE(complaint(replaced(surveyed, "\"ranks\": 2", "\"ranks\": 1")).find("'ranks'"), std::string::npos);
  EXPECT_NE(complaint(replaced(surveyed, "\"kind\": \"memory\"", "\"kind\": 3")).find("'kind'"), std::string::npos);
  EXPECT_NE(complaint(replaced(surveyed, "9.0", "-1")).find("'scan/chain'"), std::string::npos);
  EXPECT_NE(complaint(replaced(surveyed, "\"surveys\"", "\"views\"")).find("'surveys'"), std::string::npos);
}

TEST(Surveys, WhetherRanksShareACoreCountsForMoreThanHowManyTheyAre) {
  CostTable costs = usual_costs(4);
  Rates two_cores = costs.memory, many_cores = costs.memory;
  two_cores.cores = 2;
  many_cores.cores = 16;
  for (const int ranks : {2, 4, 8}) costs.surveys.push_back({true, ranks, 1, two_cores, {}});
  for (const int ranks : {2, 4, 8, 16}) costs.surveys.push_back({true, ranks, 1, many_cores, {}});
  const auto nearest = [&](int ranks) {
    const Survey& survey = *nearest_survey(costs, true, ranks);
    return std::pair(survey.ranks, survey.rates.cores);
  };
  EXPECT_EQ(nearest(4), std::pair(4, 16)) << "a core each";
  EXPECT_EQ(nearest(8), std::pair(4, 2)) << "two to a core";
  EXPECT_EQ(nearest(16), std::pair(8, 2)) << "four to a core";
  EXPECT_EQ(nearest(2), std::pair(2, 2)) << "of equals the first";
}

TEST(Surveys, TheNearestInSizeHolds) {
  CostTable costs = usual_costs(2);
  EXPECT_EQ(nearest_survey(costs, true, 4), nullptr);
  for (const int ranks : {2, 8, 64}) put_survey(costs, {true, ranks, 1, costs.memory, {}});
  put_survey(costs, {false, 5, 1, costs.streams, {}});
  for (const auto& [ranks, nearest] : {std::pair{2, 2}, {3, 2}, {5, 8}, {8, 8}, {20, 8}, {30, 64}, {1000, 64}})
    EXPECT_EQ(nearest_survey(costs, true, ranks)->ranks, nearest) << ranks;
  EXPECT_EQ(nearest_survey(costs, false, 1000)->ranks, 5);
  Survey again{true, 8, 1, costs.streams, {}};
  put_survey(costs, again);
  EXPECT_EQ(costs.surveys.size(), 4u);
  EXPECT_EQ(*nearest_survey(costs, true, 8), again);
}

TEST(Surveys, ThoseOfSeveralHostsAreForSeveralHosts) {
  CostTable costs = usual_costs(2);
  for (const int hosts : {1, 4}) put_survey(costs, {false, 8, hosts, costs.streams, {}});
  ASSERT_EQ(costs.surveys.size(), 2u) << "the one does not take the place of the other";
  EXPECT_EQ(nearest_survey(costs, false, 8, 1)->hosts, 1);
  EXPECT_EQ(nearest_survey(costs, false, 64, 2)->hosts, 4);
  EXPECT_EQ(costs_from_text(to_text(costs)), costs);
  EXPECT_NE(complaint(replaced(to_text(costs), "\"hosts\": 4", "\"hosts\": 9")).find("'hosts'"), std::string::npos);
}

TEST(Surveys, BetweenTwoThatWereTimedLiesTheGroup) {
  CostTable costs = usual_costs(16);
  Rates twice = costs.memory;
  twice.message *= 4;
  const auto factors = [](double factor) {
    std::array<double, kSurveySizes> all{};
    all.fill(factor);
    return all;
  };
  put_survey(costs, {true, 2, 1, twice, {{"a", factors(1)}, {"only there", factors(3)}}});
  put_survey(costs, {true, 8, 1, costs.memory, {{"a", factors(16)}}});
  const Rates& usual = usual_costs(16).memory;
  EXPECT_EQ(survey_for(costs, true, 8), *nearest_survey(costs, true, 8)) << "this one was timed";
  EXPECT_EQ(survey_for(costs, true, 16), *nearest_survey(costs, true, 8)) << "beyond the last";
  EXPECT_EQ(survey_for(costs, false, 4), std::nullopt);
  put_survey(costs, {true, 8, 1, usual, {{"a", factors(16)}}});
  const Survey four = survey_for(costs, true, 4).value();
  EXPECT_EQ(four.ranks, 4);
  EXPECT_NEAR(four.rates.message, 2 * usual.message, 1e-12) << "half-way, by factors";
  EXPECT_NEAR(four.factors.at("a")[0], 4, 1e-9);
  EXPECT_EQ(four.factors.at("only there")[0], 3);
  Rates two_cores = usual;
  two_cores.cores = 2;
  put_survey(costs, {true, 5, 1, two_cores, {}});
  costs.memory.cores = 16;
  EXPECT_EQ(survey_for(costs, true, 3)->factors.at("a")[0], 1 * std::pow(16, std::log(1.5) / std::log(4.0)))
      << "not what another machine took";
}

TEST(Rates, OlderFilesAreToldHowToMakeNewOnes) {
  const std::string words = complaint(replaced(to_text(usual_costs(2)), "\"version\": 6", "\"version\": 5"));
  EXPECT_NE(words.find("version 6"), std::string::npos) << words;
  EXPECT_NE(words.find("tutti tune"), std::string::npos) << words;
}

}  // namespace
}  // namespace tutti::topology
