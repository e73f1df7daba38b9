// tutti plan gamma, as a user meets it: the tables, the break-even, the picture, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "shell.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Ended gamma(const std::string& arguments) {
  return shell(std::string(TUTTI_TOOL) + " plan gamma " + arguments, "2>&1");
}

// Runs of blanks as one, so that the tests are about figures.
std::string squeezed(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += word + " ";
  return all;
}

TEST(PlanGamma, PrintsTheTablesByDefault) {
  const Ended ended = gamma("");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  const std::string text = squeezed(ended.output);
  for (const char* line : {"1 2048 275.69 0.00 0.000 ", "4 512 68.92 35.00 0.508 ", "16 128 17.23 43.75 2.539 ",
                           "64 32 4.31 45.94 10.664 ", "256 8 1.08 46.48 43.164 ", "1024 2 0.27 46.62 173.164 "})
    EXPECT_THAT(text, HasSubstr(line));
  for (const char* line :
       {"1e+08 0.06 0.66 10.66", "7e+08 0.43 4.59 10.66", "7e+09 4.31 45.94 10.66", "7e+10 43.08 459.38 10.66"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, AllOf(HasSubstr("1 token per example"), HasSubstr("without latency"),
                          HasSubstr("break-even: 6.908 workers, whatever P"), HasSubstr("weak scaling")));
  EXPECT_THAT(text, HasSubstr("64 | 32 10.664 5.82 | 32 10.664 5.82"));
  EXPECT_THAT(text, Not(HasSubstr("latency at K")));
}

TEST(PlanGamma, TellsWhereLatencyMatters) {
  EXPECT_THAT(squeezed(gamma("--latency 5").output),
              AllOf(HasSubstr("5 us for each of 2 (K - 1) rounds"),
                    HasSubstr("latency at K = 1024: half of the all-reduce of a model of 1.54e+09 parameters")));
}

TEST(PlanGamma, FallsWithTheLengthOfSequences) {
  const json one = json::parse(gamma("--json").output);
  const json many = json::parse(gamma("--json --tokens-per-example 2048").output);
  EXPECT_NEAR(one["strong"][3]["gamma_raw"].get<double>() / many["strong"][3]["gamma_raw"].get<double>(), 2048, 1e-6);
  EXPECT_TRUE(many["break_even_weak"].is_null());
  EXPECT_EQ(many["strong"][3]["gamma_exposed"], 0.0);
  EXPECT_GT(one["strong"][3]["gamma_exposed"], 9.0);
}

TEST(PlanGamma, IsDrawnWithItsBreakEven) {
  const auto path = std::filesystem::temp_directory_path() / ("gamma-" + std::to_string(getpid()) + ".svg");
  EXPECT_EQ(gamma("--plot " + path.string()).exit_code, 0);
  std::ifstream file(path);
  std::ostringstream svg;
  svg << file.rdbuf();
  std::filesystem::remove(path);
  EXPECT_THAT(svg.str(), AllOf(HasSubstr("<svg "), HasSubstr("gamma = 1"), HasSubstr("strong scaling, raw, 64: 10.66"),
                               HasSubstr("weak scaling, exposed")));
}

TEST(PlanGamma, RefusesWithTheRemedy) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Ended ended = gamma(arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    EXPECT_THAT(ended.output, HasSubstr(words));
  };
  refused("--flops 0", "--flops is 0; give a number above 0");
  refused("--overlap 2", "a share of backward, from 0 to 1");
  refused("--workers 4,2", "in ascending order");
  refused("--workers 4,x", "'x' is none");
  refused("--models ,", "numbers from 1 between commas");
}

}  // namespace
}  // namespace tutti::testing
