// In real jobs the slow rank is named, and nobody where there is none. It wants the machine for itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "shell.h"

namespace tutti::tools {
namespace {

using nlohmann::json;

TEST(StudyStraggler, NamesTheSlowRankInEveryRunAndNobodyInHealthyOnes) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 chance(seed);
    const std::string slow = std::to_string(std::uniform_int_distribution<int>(0, 3)(chance));
    const auto ended =
        testing::shell(std::string(TUTTI_TOOL) + " study straggler -n 4 --slow " + slow +
                       ":2x --steps 12 --work-ms 8 -b 4K --rounds 1 --json - --seed " + std::to_string(seed));
    ASSERT_EQ(ended.exit_code, 0) << ended.output;
    const json told = json::parse(ended.output);
    ASSERT_EQ(told["rows"].size(), 4U);
    for (const json& row : told["rows"]) {
      ASSERT_EQ(row["named"].size(), 1U);
      EXPECT_EQ(row["named"][0], row["slowed"]) << "seed " << seed << ": " << row.dump();
    }
  }
}

}  // namespace
}  // namespace tutti::tools
