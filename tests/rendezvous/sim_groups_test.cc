// Several groups over one watch: what fails which of them, and what is heard by whom.
#include <gtest/gtest.h>

#include "effort.h"
#include "rendezvous/recorder.h"
#include "rendezvous/sim_fleet.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using tutti::testing::tries;

constexpr GroupNumber kEven = 2, kOdd = 1, kLow = 77;

class SimGroups : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  SimGroups() : fleet_(GetParam(), {.size = 16}) {
    const std::vector<int> even{0, 2, 4, 6, 8, 10, 12, 14}, odd{1, 3, 5, 7, 9, 11, 13, 15};
    for (int rank = 0; rank < 16; ++rank) {
      fleet_.watch(rank).enter(rank % 2 == 0 ? kEven : kOdd, rank % 2 == 0 ? even : odd);
      if (rank < 4) fleet_.watch(rank).enter(kLow, {3, 2, 1, 0});
    }
  }
  static GroupNumber own(int rank) { return rank % 2 == 0 ? kEven : kOdd; }
  void settle() { fleet_.run_for(milliseconds(200)); }

  Fleet fleet_;
};

TEST_P(SimGroups, ADeathFailsEveryGroupThatHoldsTheRankAndNoOther) {
  fleet_.kill(3);
  settle();
  for (const int rank : fleet_.living()) {
    EXPECT_EQ(fleet_.watch(rank).failure(own(rank)).has_value(), rank % 2 == 1) << rank;
    if (rank < 4) {
      EXPECT_EQ(fleet_.watch(rank).failure(kLow)->rank, 3) << rank;
    }
  }
  fleet_.kill(6);
  settle();
  for (const int rank : fleet_.living()) {
    EXPECT_EQ(fleet_.watch(rank).failure(own(rank))->rank, rank % 2 == 1 ? 3 : 6) << rank;
    if (rank < 4) {
      EXPECT_EQ(fleet_.watch(rank).failure(kLow)->rank, 3) << "the first counts";
    }
  }
}

TEST_P(SimGroups, AnAbortFailsItsGroupAlone) {
  fleet_.watch(2).abort(kLow, 1, ErrorCode::invalid_argument);
  settle();
  for (const int rank : fleet_.living()) {
    EXPECT_FALSE(fleet_.watch(rank).failure(own(rank))) << rank;
    if (rank >= 4) continue;
    const Failure failure = *fleet_.watch(rank).failure(kLow);
    EXPECT_EQ(failure.rank, 2);
    EXPECT_EQ(failure.blamed, 1);
    EXPECT_FALSE(failure.died);
    EXPECT_EQ(failure.cause, ErrorCode::invalid_argument);
  }
}

TEST_P(SimGroups, AGroupIsLeftWithoutLeavingTheOthers) {
  fleet_.watch(0).announce(kLow, 1, {5, 6, 7});
  fleet_.watch(0).leave(kLow);
  settle();
  for (const int rank : {1, 2, 3}) {
    EXPECT_TRUE(fleet_.watch(rank).departed(kLow, 0));
    EXPECT_EQ(fleet_.watch(rank).announced(kLow, 0).at(1), (Statement{5, 6, 7}));
  }
  for (const int rank : {2, 4, 14}) EXPECT_FALSE(fleet_.watch(rank).departed(kEven, 0));
  fleet_.leave(0);
  settle();
  for (const int rank : {2, 4, 14}) EXPECT_TRUE(fleet_.watch(rank).departed(kEven, 0));
  for (const int rank : fleet_.living()) EXPECT_FALSE(fleet_.watch(rank).failure(own(rank)));
}

// Ranks make a group one after the other.
TEST_P(SimGroups, WhoEntersLateFindsWhatWasBefore) {
  constexpr GroupNumber kHoldsDead = 100, kGivenUp = 101, kFine = 102;
  fleet_.watch(1).enter(kGivenUp, {1, 2});
  fleet_.watch(1).enter(kFine, {1, 2});
  fleet_.watch(1).announce(kFine, 0, {1, 1, 1});
  fleet_.watch(1).announce(kFine, 0, {2, 1, 1});
  fleet_.watch(1).leave(kFine);
  fleet_.watch(1).abort(kGivenUp, -1, ErrorCode::timeout);
  fleet_.kill(9);
  settle();
  fleet_.watch(2).enter(kHoldsDead, {2, 9});
  fleet_.watch(2).enter(kGivenUp, {1, 2});
  fleet_.watch(2).enter(kFine, {1, 2});
  ASSERT_TRUE(fleet_.watch(2).failure(kHoldsDead));
  EXPECT_TRUE(fleet_.watch(2).failure(kHoldsDead)->died);
  ASSERT_TRUE(fleet_.watch(2).failure(kGivenUp));
  EXPECT_EQ(fleet_.watch(2).failure(kGivenUp)->cause, ErrorCode::timeout);
  EXPECT_FALSE(fleet_.watch(2).failure(kFine));
  EXPECT_TRUE(fleet_.watch(2).departed(kFine, 1));
  EXPECT_EQ(fleet_.watch(2).announced(kFine, 1).at(0).sequence, 2u);
}

TEST_P(SimGroups, TheNewestStatementOfEachReachesAllMembers) {
  for (std::uint32_t turn = 1; turn <= 20; ++turn) {
    for (int rank = 0; rank < 16; ++rank) fleet_.watch(rank).announce(own(rank), turn % 3, {turn, 1, 1});
    fleet_.run_for(milliseconds(turn % 4));
  }
  settle();
  for (int rank = 0; rank < 16; ++rank) {
    for (int peer = rank % 2; peer < 16; peer += 2) {
      const auto statements = fleet_.watch(rank).announced(own(rank), peer);
      ASSERT_EQ(statements.size(), 3u) << rank << " of " << peer;
      EXPECT_EQ(statements[0].sequence, 18u);
      EXPECT_EQ(statements[1].sequence, 19u);
      EXPECT_EQ(statements[2].sequence, 20u);
    }
    EXPECT_TRUE(fleet_.watch(rank).announced(own(rank + 1), (rank + 1) % 16).size() == 3) << "kept for a while";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimGroups, ::testing::Range<std::uint64_t>(0, tries(20)));

// What comes once more, or too late, goes no further.
TEST(GroupNews, IsPassedOnOnceToEveryOtherNeighbour) {
  Recorder network;
  Watch watch(network, {0, 8, Time(0), {{1, 11}, {2, 12}, {4, 14}}}, Time(0));
  News news;
  news.kind = News::Kind::statement;
  news.origin = 5;
  news.number = 9;
  news.group = 123;
  news.statement = {1, 2, 3};
  const Bytes frame = frame_of(news);
  watch.received(12, frame, Time(1));
  EXPECT_EQ(network.sent[11], frame);
  EXPECT_EQ(network.sent[14], frame);
  EXPECT_TRUE(network.sent[12].empty()) << "not back to where it came from";
  watch.received(11, frame, Time(2));
  news.number = 8;
  news.statement = {7, 7, 7};
  watch.received(14, frame_of(news), Time(3));
  EXPECT_EQ(network.sent[11], frame);
  EXPECT_EQ(network.sent[14], frame);
  EXPECT_TRUE(network.sent[12].empty());
  watch.enter(123, {0, 5});
  EXPECT_EQ(watch.announced(123, 5).at(0), (Statement{1, 2, 3})) << "the newest";
}

// What is told of groups of others is kept only for a while.
TEST(GroupNews, OfOthersIsForgottenInTheEnd) {
  KnownNews known;
  News news;
  news.kind = News::Kind::leave;
  for (news.number = 1; news.number <= 3 * KnownNews::kMostForeign; ++news.number) {
    news.group = news.number;
    ASSERT_TRUE(known.is_new(news));
    known.add(news);
  }
  EXPECT_EQ(known.size(), KnownNews::kMostForeign);
  EXPECT_TRUE(known.departed(3 * KnownNews::kMostForeign, 0));
  EXPECT_FALSE(known.departed(1, 0));
  news.number = 5;
  EXPECT_FALSE(known.is_new(news)) << "it does not come round again";
}

}  // namespace
}  // namespace tutti::rendezvous
