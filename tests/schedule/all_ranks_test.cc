// Every algorithm for 2 to 64 ranks: more than the tests of every build have time for.
#include <gtest/gtest.h>

#include <string>

#include "program_sets.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {
namespace {

TEST(AllRanks, EveryAlgorithmIsProvedFrom2To64) {
  int proved = 0;
  for (const Algorithm& row : algorithms()) {
    for (int ranks = 2; ranks <= most_ranks(row, 64); ++ranks) {
      if (!fits(row, ranks)) continue;
      const std::vector<Lowered> programs = programs_of(row, ranks, shared_memory(row.credits), ranks / 2);
      const VerifyReport report = verify(programs, {ragged_count(programs[0].program, 1), 4, 1, 0, false});
      ASSERT_TRUE(report.ok()) << name_of(row.verb) << " by " << row.name << ", " << ranks
                               << " ranks: " << text_of(report.problems[0]);
      // Among few ranks other orders are the canonical one, too.
      if (row.canonical() || ranks >= 5) {
        EXPECT_EQ(report.canonical, row.canonical()) << name_of(row.verb) << " by " << row.name << ", " << ranks;
      }
      ++proved;
    }
  }
  RecordProperty("proved", proved);
}

}  // namespace
}  // namespace tutti::schedule
