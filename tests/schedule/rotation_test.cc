// One rank that stands for all says what all of them together say: of every algorithm it is for, and of wrong ones.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "effort.h"
#include "mutate.h"
#include "program_sets.h"
#include "schedule/fold.h"
#include "schedule/readers/verify.h"
#include "schedule/readers/verify_rotation.h"
#include "words.h"

namespace tutti::schedule {
namespace {

using Programs = std::vector<Lowered>;

std::string name_of_row(const Algorithm& row) {
  return std::string(name_of(row.verb)) + " by " + std::string(row.name);
}

bool all_alike(const Programs& programs) { return fold_ranks(programs).size() == 1; }

// Both verdicts are the same where one rank decides; says whether it did.
bool expect_same(const Programs& programs, const VerifyOptions& options, const std::string& what) {
  const std::optional<VerifyReport> one = verify_rotation(programs[0], options);
  if (!one) return false;
  const VerifyReport all = verify(programs, options);
  EXPECT_EQ(one->ok(), all.ok()) << what << ": " << (one->ok() ? "" : text_of(one->problems[0]))
                                 << "; all: " << (all.ok() ? "" : text_of(all.problems[0]));
  if (all.ok()) {
    EXPECT_EQ(one->canonical, all.canonical) << what;
  }
  return true;
}

VerifyOptions options_for(const Program& program, std::uint32_t segments, bool in_place) {
  return {ragged_count(program, segments), 4, segments, 0, in_place};
}

TEST(Rotation, SaysWhatAllRanksTogetherSay) {
  std::set<std::string> decided;
  for (const Algorithm& row : algorithms()) {
    for (const int ranks : {2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 33, 48, 63, 64}) {
      if (row.verb == Verb::send_recv || !fits(row, ranks) || ranks > static_cast<int>(testing::tries(64))) continue;
      for (const bool streams : {false, true}) {
        if (streams && needs_shared_memory(row)) continue;
        const Programs programs = programs_of(row, ranks, streams ? byte_streams(1) : shared_memory(row.credits));
        if (!why_not_rotation(programs[0]).empty() || !all_alike(programs)) continue;
        for (const std::uint32_t segments : {1u, 3u}) {
          for (const bool in_place : {false, true}) {
            const std::string what = name_of_row(row) + ", " + std::to_string(ranks) + " ranks";
            const VerifyOptions options = options_for(programs[0].program, segments, in_place);
            if (expect_same(programs, options, what)) decided.insert(name_of_row(row));
          }
        }
      }
    }
  }
  EXPECT_EQ(decided,
            (std::set<std::string>{"all_gather by bruck", "all_gather by pat", "all_gather by ring",
                                   "all_reduce by ring", "all_to_all by spread_out", "barrier by dissemination",
                                   "reduce_scatter by pat", "reduce_scatter by ring"}));
}

// A generator that is wrong for all ranks alike: whatever the mistake, one rank and all of them come to the same.
TEST(Rotation, SaysTheSameOfMutants) {
  std::vector<Programs> subjects;
  for (const Algorithm& row : algorithms()) {
    for (const int ranks : {2, 3, 4, 6, 9, 16}) {
      if (row.verb == Verb::send_recv || !fits(row, ranks)) continue;
      for (const bool streams : {false, true}) {
        if (streams && needs_shared_memory(row)) continue;
        Programs programs = programs_of(row, ranks, streams ? byte_streams(1) : shared_memory(row.credits));
        if (why_not_rotation(programs[0]).empty() && all_alike(programs)) subjects.push_back(std::move(programs));
      }
    }
  }
  ASSERT_FALSE(subjects.empty());
  int compared = 0, wrong = 0;
  for (std::uint64_t seed = 1; seed <= testing::tries(20'000); ++seed) {
    const auto mutation = static_cast<Mutation>(scramble(4 * seed) % std::size(kMutationNames));
    Programs mutant = subjects[scramble(4 * seed + 1) % subjects.size()];
    const auto edit = mutate(mutant, mutation, seed);
    if (!edit || !all_alike(mutant)) continue;
    const auto segments = static_cast<std::uint32_t>(1 + scramble(4 * seed + 2) % 3);
    const VerifyOptions options = options_for(mutant[0].program, segments, scramble(4 * seed + 3) % 2 == 0);
    const std::string what = "seed " + std::to_string(seed) + ", " + mutant[0].program.algorithm + ", " +
                             std::to_string(mutant.size()) + " ranks: " + *edit;
    if (!expect_same(mutant, options, what)) continue;
    ++compared;
    wrong += verify_rotation(mutant[0], options)->ok() ? 0 : 1;
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, static_cast<int>(testing::tries(3000)));
  EXPECT_GT(wrong, compared / 3);
  RecordProperty("compared", compared);
  std::printf("%d mutants of all ranks alike compared, %d of them wrong\n", compared, wrong);
}

TEST(Rotation, ProvesTenThousandRanks) {
  for (const char* name : {"ring", "bruck"}) {
    const Algorithm& row = *find_algorithm(Verb::all_gather, name);
    const Lowered first = lower(row, {10'000, 0, 0}, shared_memory(row.credits));
    const auto report = verify_rotation(first, options_for(first.program, 1, false));
    ASSERT_TRUE(report.has_value()) << why_not_rotation(first);
    EXPECT_TRUE(report->ok()) << text_of(report->problems[0]);
  }
  const Algorithm& ring = *find_algorithm(Verb::all_reduce, "ring");
  Lowered first = lower(ring, {10'000, 0, 0}, shared_memory(ring.credits));
  auto report = verify_rotation(first, options_for(first.program, 1, false));
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->ok()) << text_of(report->problems[0]);
  EXPECT_FALSE(report->canonical);
  first.program.lanes[0].steps[7'000].sources[1].blocks.first.value += 1;
  report = verify_rotation(first, options_for(first.program, 1, false));
  EXPECT_FALSE(report.has_value() && report->ok());
  first = lower(ring, {10'000, 0, 0}, shared_memory(1));
  report = verify_rotation(first, options_for(first.program, 1, false));
  ASSERT_TRUE(report.has_value() && !report->ok());
  EXPECT_EQ(text_of(report->problems[0]),
            "no rank gets beyond step 1 of segment 0: all of them wait for each other\n"
            "  every rank waits for rank+1 to take a message, which is where it stands");
}

TEST(Rotation, SaysWhyOneRankDoesNotStandForAll) {
  const auto why = [](Verb verb, const char* name) {
    const Algorithm& row = *find_algorithm(verb, name);
    return why_not_rotation(lower(row, {4, 0, 0}, shared_memory(2)));
  };
  EXPECT_EQ(why(Verb::broadcast, "binomial"), "is of a verb whose ranks are not all alike");
  EXPECT_EQ(why(Verb::all_reduce, "direct"), "has several lanes");
  EXPECT_EQ(why(Verb::all_gather, "single_copy"), "has messages that are copied once");
  EXPECT_EQ(why(Verb::all_reduce, "exchange"), "has not one block for each rank");
}

}  // namespace
}  // namespace tutti::schedule
