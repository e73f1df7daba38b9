// The player and the drawing: correct programs play to a complete end, broken ones show where they stand.
#include "schedule/readers/play.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "golden/programs.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/columns.h"
#include "schedule/readers/describe.h"
#include "schedule/readers/draw.h"
#include "schedule/readers/traffic.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using testing::HasSubstr;
using testing::Not;

int play_to_the_end(Player& player) {
  int rounds = 0;
  while (!player.advance().fired.empty()) ++rounds;
  return rounds;
}

void expect_complete(const Player& player, const std::string& what) {
  EXPECT_TRUE(player.stuck().empty()) << what;
  for (std::size_t rank = 0; rank < player.ranks().size(); ++rank) {
    const std::vector<Contribution>& output = player.ranks()[rank].output;
    for (std::size_t block = 0; block < output.size(); ++block) {
      EXPECT_EQ(output[block], player.wanted(static_cast<int>(rank), static_cast<int>(block)))
          << what << " rank " << rank;
    }
    EXPECT_TRUE(player.ranks()[rank].inbox.empty()) << what;
  }
}

TEST(Play, EveryAlgorithmEndsComplete) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      if (!takes(algorithm, ranks)) continue;
      for (const Offers& offers : {offers_everything(), offers_streams(), offers_on_two_hosts(ranks)}) {
        if (!why_not(algorithm, {ranks, 0, 0}, offers).empty()) continue;
        const auto programs = programs_of(algorithm, ranks, offers, ranks / 2);
        Player player(programs);
        play_to_the_end(player);
        expect_complete(player, std::string(algorithm.name) + " with " + std::to_string(ranks) + " ranks");
      }
    }
  }
}

TEST(Play, RingTakesTwiceItsRanksLessOneRounds) {
  for (const int ranks : {2, 3, 4, 9}) {
    const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), ranks, offers_everything());
    Player player(programs);
    EXPECT_EQ(play_to_the_end(player), 2 * ranks - 1);
  }
}

TEST(Play, AMissingMessageIsSeenAsStuck) {
  auto programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, offers_everything());
  programs[2].program.lanes[0].steps.erase(programs[2].program.lanes[0].steps.begin());
  Player player(programs);
  play_to_the_end(player);
  EXPECT_FALSE(player.stuck().empty());
  EXPECT_THAT(draw(programs), HasSubstr("stuck after"));
}

TEST(Play, AContributionAddedTwiceIsSeen) {
  auto programs = programs_of(*find_algorithm(Verb::all_reduce, "exchange"), 3, offers_everything());
  Step& reduce = programs[1].program.lanes[0].steps[1];
  reduce.sources.push_back(Operand::own(Buffer::input, reduce.destinations[0].blocks));
  Player player(programs);
  play_to_the_end(player);
  EXPECT_EQ(player.ranks()[1].output[0], (Contribution{0, 1, 1, 2}));
  EXPECT_THAT(draw(programs), HasSubstr("0112\n"));
}

TEST(Play, RefusesPlacesThatDoNotExist) {
  const auto sound = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 3, offers_everything());
  const auto expect_refused = [&](auto&& damage) {
    auto programs = sound;
    damage(programs[1].program.lanes[0].steps[0]);
    EXPECT_THROW(Player{programs}, Error);
  };
  expect_refused([](Step& step) { step.sources[0].blocks.count = 1; });
  expect_refused([](Step& step) { step.sources[0].blocks.first = Index::absolute(3); });
  expect_refused([](Step& step) { step.destinations[0].plane = 1; });
  expect_refused([](Step& step) { step.destinations[0].rank = Index::exclusive_or(8); });
  expect_refused([](Step& step) { step.waits[0].lane = 3; });
  expect_refused([](Step& step) { step.waits[0].step = 1; });
  expect_refused([](Step& step) { step.waits[0].rank = Index::absolute(-1); });
}

TEST(Draw, FitsTheColumns) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {2, 4, 8, 16, 33}) {
      if (!takes(algorithm, ranks)) continue;
      const auto programs = programs_of(algorithm, ranks, offers_everything());
      std::istringstream lines(draw(programs));
      for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 100U) << line;
    }
  }
}

TEST(Draw, ShowsBarsForManyRanks) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 16, offers_everything());
  EXPECT_THAT(draw(programs), HasSubstr("████████████████\n"));
}

TEST(Describe, TrafficOfTheRing) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, offers_everything());
  const Traffic traffic = traffic_of(programs[2].program);
  EXPECT_EQ(traffic.messages_sent, 6);
  EXPECT_EQ(traffic.blocks_sent, 6);
  EXPECT_EQ(traffic.blocks_reduced, 3);
}

// What messages alone bring about, less of them could not: a row, or the bound, would be wrong.
TEST(Traffic, OfTheBusiestRankIsNeverBelowTheLeast) {
  for (const Algorithm& row : algorithms()) {
    if (!only_sends(row)) continue;
    for (int ranks = 2; ranks <= 17; ++ranks) {
      if (!takes(row, ranks)) continue;
      const double most = busiest_of(row, ranks, ranks / 2).moved;
      EXPECT_GE(most, least_moved(row.verb, ranks) - 1e-9) << name_of(row.verb) << " by " << row.name << ", " << ranks;
    }
  }
  EXPECT_DOUBLE_EQ(least_moved(Verb::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(least_moved(Verb::broadcast, 4), 1.0);
  EXPECT_DOUBLE_EQ(least_moved(Verb::all_gather, 4), 0.75);
}

TEST(Describe, TellsOfSegmentsWhereLoweringBoundsThem) {
  const Algorithm& ring = *find_algorithm(Verb::all_reduce, "ring");
  EXPECT_THAT(describe(programs_of(ring, 4, offers_streams())), HasSubstr("segments  of at most 262144 bytes"));
  EXPECT_THAT(describe(programs_of(ring, 4, offers_everything())), Not(HasSubstr("segments")));
}

}  // namespace
}  // namespace tutti::schedule
