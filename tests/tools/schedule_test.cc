// Schedules of one's own, as a user meets them: written by `tutti show --json`, edited, and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"
#include "tools/launched.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string tool(const std::string& arguments) { return std::string(TUTTI_TOOL) + " " + arguments; }

class Schedule : public ::testing::Test {
 protected:
  // Recursive doubling among three ranks, under a name of its own.
  json mine() const {
    json programs = json::parse(shell(tool("show all_reduce -a recursive_doubling -n 3 --json")).output);
    programs["algorithm"] = "mine";
    return programs;
  }
  // Rank 1 forgets the last thing it does.
  json wrong() const {
    json programs = mine();
    for (json& group : programs["programs"]) {
      if (group["ranks"] == json::array({1})) group["lanes"][0]["steps"].clear();
    }
    return programs;
  }
  std::string file(const json& programs) const { return folder_.with("mine.json", programs.dump(1), 0600); }
  Ended run(const std::string& schedule, int ranks = 3) const {
    return shell("TUTTI_LOG=info TUTTI_SCHEDULE=" + schedule + " " + tool("run -n ") + std::to_string(ranks) + " -- " +
                 TUTTI_MEETING_PROBE);
  }

  Folder folder_;
};

TEST_F(Schedule, OfAFileRuns) {
  const Ended ended = run("all_reduce=" + file(mine()));
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, "sum 3 of 3"), 3) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("all_reduce: mine (brought by the caller)"));
}

TEST_F(Schedule, ThatIsWrongIsRefusedWithItsStory) {
  const Ended ended = run("all_reduce=" + file(wrong()));
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_EQ(count_of(ended.output, "does not verify: block 0 of rank 0's output never gets the reduction"), 3)
      << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("no lane of rank 1 "));
}

TEST_F(Schedule, ForOtherRanksIsRefused) {
  const Ended ended = run("all_reduce=" + file(mine()), 2);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.output, HasSubstr("is for 3 ranks, and this group has 2"));
}

// All ranks but one bring a schedule: they learn it where they meet.
TEST_F(Schedule, ThatNotAllRanksBringIsAMismatch) {
  const std::string rank = folder_.with(
      "rank.sh", "#!/bin/sh\n[ \"$TUTTI_RANK\" = 1 ] && unset TUTTI_SCHEDULE\nexec " TUTTI_MEETING_PROBE "\n", 0700);
  const Ended ended = shell("TUTTI_SCHEDULE=all_reduce=" + file(mine()) + " " + tool("run -n 3 -- ") + rank);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.output, HasSubstr("wants TUTTI_SCHEDULE=unset"));
  EXPECT_THAT(ended.output, HasSubstr("set it alike on all ranks"));
}

TEST_F(Schedule, IsMeasuredBesideOurs) {
  const std::string mine_file = file(mine());
  const Ended ended =
      shell(tool("bench all_reduce -n 3 -b 1k -e 1k --rounds 1 --iterations 1 --schedule ") + mine_file);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, ::testing::ContainsRegex("tutti-file .* mine "));
  const auto expect_refused = [](const std::string& arguments, const std::string& words) {
    const Ended refused = shell(tool("bench " + arguments));
    EXPECT_NE(refused.exit_code, 0) << arguments;
    EXPECT_THAT(refused.output, HasSubstr(words));
  };
  expect_refused("all_gather -n 3 --schedule " + mine_file, "is a schedule of all_reduce: measure that verb");
  expect_refused("all_reduce -n 2 --schedule " + mine_file, "is for 3 ranks: measure with -n 3");
  expect_refused("all_reduce -n 3 --schedule /nowhere", "cannot read '/nowhere'");
  expect_refused("all_reduce -n 3 --schedule " + file(wrong()), "does not verify: block 0 of rank 0's output");
}

TEST_F(Schedule, OfAnUnknownVerbHasTheNearestName) {
  EXPECT_THAT(shell(tool("verify all_redcue")).output, HasSubstr("no verb 'all_redcue'; did you mean all_reduce?"));
  EXPECT_THAT(shell(tool("verify gater")).output, HasSubstr("did you mean gather?"));
}

}  // namespace
}  // namespace tutti::testing
