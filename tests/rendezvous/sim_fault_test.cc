// Deaths, aborts and announcements in a simulated network: every survivor names the first cause, in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "effort.h"
#include "rendezvous/sim_cluster.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::testing::tries;

// The number of events until all have met when nothing goes wrong.
std::size_t events_to_meet(std::uint64_t seed, const ClusterOptions& options) {
  Cluster cluster(seed, options);
  cluster.start_all();
  cluster.run_until_met();
  EXPECT_TRUE(cluster.all_met());
  return cluster.world.events();
}

TEST(SimFault, ADeathAtAnyEventIsNamedByEverySurvivor) {
  for (std::uint64_t seed = 0; seed < tries(1500); ++seed) {
    const ClusterOptions options = linked_layout(seed);
    const std::size_t whole = events_to_meet(seed, options);
    Cluster cluster(seed, options);
    cluster.start_all();
    const std::size_t when = (seed * 2654435761u) % (whole + whole / 2);
    while (cluster.world.events() < when && cluster.world.step(seconds(20))) {
    }
    const int victim = static_cast<int>(seed % static_cast<unsigned>(options.size));
    cluster.kill(victim);
    const Time killed_at = cluster.world.now();
    cluster.run_until_all_failed(seconds(100));
    const std::string what = "seed " + std::to_string(seed) + ", rank " + std::to_string(victim) + " killed at event " +
                             std::to_string(when) + " of " + std::to_string(whole);
    expect_all_name(cluster, victim, killed_at + kSlack, what);
    if (::testing::Test::HasFailure()) return;
  }
}

// A rank that keeps the lobby takes it along. Whoever was greeted names it; nobody else knew that it kept the lobby.
TEST(SimFault, TheDeathOfTheKeeperIsNamedByAllItHadGreeted) {
  int named = 0, others = 0;
  for (std::uint64_t seed = 0; seed < tries(2000); ++seed) {
    ClusterOptions options = linked_layout(seed);
    options.keeper = 0;
    const std::size_t whole = events_to_meet(seed, options);
    Cluster cluster(seed, options);
    cluster.start_all();
    const std::size_t when = (seed * 2654435761u) % (whole + whole / 8);
    while (cluster.world.events() < when && cluster.world.step(seconds(20))) {
    }
    cluster.kill(0);
    const Time killed_at = cluster.world.now();
    cluster.run_until_all_failed(seconds(100));
    for (const auto& rank : cluster.ranks) {
      if (rank->dead) continue;
      const std::string words = rank->watch ? "" : rank->joiner->verdict().text;
      const bool knew = words.find("cannot meet the others: the lobby at") == std::string::npos &&
                        words.find("whoever kept the lobby") == std::string::npos;
      knew ? ++named : ++others;
      if (!knew) continue;
      ASSERT_EQ(rank->named(), 0) << "seed " << seed << ", rank " << rank->number << ": " << words;
      ASSERT_LE(rank->failed_at, killed_at + kSlack) << "seed " << seed << ", rank " << rank->number;
    }
  }
  EXPECT_GT(named, others) << "the exception is not the rule";
}

// A lobby kept by a rank has no launcher to tell it of children: who died before joining is named at the deadline.
TEST(SimFault, WithoutALauncherTheDeadAreNamedAtTheDeadlineAtTheLatest) {
  for (std::uint64_t seed = 0; seed < tries(600); ++seed) {
    ClusterOptions options = linked_layout(seed);
    options.keeper = 0;
    Cluster cluster(seed, options);
    cluster.start_all();
    const std::size_t when = seed % 200;
    while (cluster.world.events() < when && cluster.world.step(seconds(20))) {
    }
    const int victim = 1 + static_cast<int>(seed % static_cast<unsigned>(options.size - 1));
    cluster.kill(victim);
    cluster.run_until_all_failed(seconds(100));
    expect_all_name(cluster, victim, kDeadline + kSlack, "seed " + std::to_string(seed));
    if (::testing::Test::HasFailure()) return;
  }
}

// A rank that gives up in the meeting for a reason of its own is no dead rank, not even to those who went already.
TEST(SimFault, WhoGivesUpInTheMeetingIsNamedWithItsCause) {
  for (std::uint64_t seed = 0; seed < tries(1500); ++seed) {
    const ClusterOptions options = linked_layout(seed);
    const std::size_t whole = events_to_meet(seed, options);
    Cluster cluster(seed, options);
    cluster.start_all();
    const int number = static_cast<int>(seed % static_cast<unsigned>(options.size));
    Rank& rank = *cluster.ranks[static_cast<std::size_t>(number)];
    const std::size_t when = whole / 2 + (seed * 2654435761u) % (whole / 2);
    while (cluster.world.events() < when || rank.joiner->state() == Joiner::State::reaching)
      ASSERT_TRUE(cluster.world.step(seconds(20)));
    if (rank.joiner->over()) continue;
    rank.joiner->fail({ErrorCode::system, number, "no more memory"}, cluster.world.now());
    cluster.world.poke(rank.node);
    cluster.run_until_all_failed(seconds(100));
    for (const auto& other : cluster.ranks) {
      ASSERT_EQ(other->named(), number) << "seed " << seed << ", rank " << other->number;
      if (other->watch) {
        ASSERT_FALSE(other->watch->failure(kEverybody)->died) << "seed " << seed << ", rank " << other->number;
        ASSERT_EQ(other->watch->failure(kEverybody)->cause, ErrorCode::system);
      }
    }
  }
}

TEST(SimFault, ALateRankIsToldOfADeathBeforeIt) {
  Cluster cluster(11, linked_layout(11));
  cluster.start_lobby();
  cluster.start(cluster.joining(1));
  cluster.run_for(milliseconds(500));
  cluster.kill(1);
  cluster.run_for(seconds(3));
  cluster.start(cluster.joining(0));
  cluster.run_until_met();
  EXPECT_EQ(cluster.ranks[1]->named(), 1);
  EXPECT_THAT(cluster.ranks[1]->joiner->verdict().text, ::testing::HasSubstr("rank 1 (pid 101 on host1) ended"));
}

// In the meeting there is no heartbeat: the others find that it does not link up, or the lobby that it does not join.
TEST(SimFault, ARankFrozenInTheMeetingIsNamedBeforeTheDeadline) {
  for (std::uint64_t seed = 0; seed < tries(600); ++seed) {
    const ClusterOptions options = linked_layout(seed);
    const std::size_t whole = events_to_meet(seed, options);
    Cluster cluster(seed, options);
    cluster.start_all();
    const std::size_t when = (seed * 2654435761u) % (whole + whole / 4);
    while (cluster.world.events() < when && cluster.world.step(seconds(20))) {
    }
    const int victim = static_cast<int>(seed % static_cast<unsigned>(options.size));
    cluster.world.freeze(cluster.ranks[static_cast<std::size_t>(victim)]->node);
    cluster.run_until_all_failed(seconds(100));
    expect_all_name(cluster, victim, kDeadline + kSlack,
                    "seed " + std::to_string(seed) + ", event " + std::to_string(when));
    if (::testing::Test::HasFailure()) return;
  }
}

// How a connection ends is all that is known of its other end.
TEST(SimFault, HowAConnectionEndedIsHowARankWasLost) {
  for (const auto& [end, loss] : {std::pair(End::orderly, Loss::ended), std::pair(End::broken, Loss::reset),
                                  std::pair(End::unreachable, Loss::unreachable)}) {
    World world(1);
    const int here = world.add_node();
    const ConnectionId connection = world.network(here).connect("there:1");
    const ConnectionId other = world.network(here).connect("elsewhere:1");
    Watch watch(world.network(here), {0, 3, kSilence, {{1, connection}, {2, other}}}, Time(0));
    watch.enter(kEverybody, everybody(3));
    watch.closed(connection, end, "", Time(1));
    ASSERT_TRUE(watch.failure(kEverybody));
    EXPECT_EQ(watch.failure(kEverybody)->rank, 1);
    EXPECT_TRUE(watch.failure(kEverybody)->died);
    EXPECT_EQ(watch.failure(kEverybody)->loss, loss);
    Watch told(world.network(here), {2, 3, kSilence, {{0, other}}}, Time(0));
    told.enter(kEverybody, everybody(3));
    told.received(other, last_words(0, *watch.failure(kEverybody)), Time(2));
    ASSERT_TRUE(told.failure(kEverybody));
    EXPECT_EQ(told.failure(kEverybody)->loss, loss) << "as the others are told";
  }
}

TEST(SimFault, AnAbortReachesAllAndAllSayWhatTheyAreIn) {
  for (std::uint64_t seed = 0; seed < tries(300); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    for (const auto& rank : cluster.ranks) {
      const auto number = static_cast<std::uint64_t>(rank->number);
      rank->watch->set_say([number](GroupNumber) {
        return std::vector<Statement>{{number + 1, 7, 100}, {number + 1, 8, 200}};
      });
    }
    cluster.ranks[1]->watch->abort(kEverybody, 2, ErrorCode::mismatch);
    cluster.run_for(seconds(3));
    for (const auto& rank : cluster.ranks) {
      ASSERT_TRUE(rank->watch->failure(kEverybody)) << "seed " << seed;
      const Failure failure = *rank->watch->failure(kEverybody);
      EXPECT_EQ(failure.rank, 1);
      EXPECT_EQ(failure.blamed, 2);
      EXPECT_FALSE(failure.died);
      EXPECT_EQ(failure.cause, ErrorCode::mismatch);
      for (const auto& peer : cluster.ranks) {
        if (peer == rank) continue;
        const auto number = static_cast<std::uint64_t>(peer->number);
        EXPECT_EQ(rank->watch->announced(kEverybody, peer->number),
                  (std::vector<Statement>{{number + 1, 7, 100}, {number + 1, 8, 200}}));
      }
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SimFault, GoodbyeIsNoDeath) {
  for (std::uint64_t seed = 0; seed < tries(300); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.ranks[0]->watch->announce(kEverybody, 3, {5, 6, 7});
    cluster.ranks[0]->watch->goodbye();
    cluster.run_for(seconds(3));
    for (const auto& rank : cluster.ranks) {
      EXPECT_FALSE(rank->failed()) << "seed " << seed;
      if (rank == cluster.ranks[0]) continue;
      EXPECT_TRUE(rank->watch->departed(kEverybody, 0));
      EXPECT_EQ(rank->watch->announced(kEverybody, 0).at(3), (Statement{5, 6, 7}));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Two failures at once: each rank keeps the one it heard of first.
TEST(SimFault, TheFirstFailureNeverChanges) {
  Cluster cluster(17, linked_layout(17));
  cluster.start_all();
  cluster.run_until_met();
  cluster.ranks[0]->watch->abort(kEverybody, -1, ErrorCode::timeout);
  cluster.ranks[0]->watch->abort(kEverybody, 1, ErrorCode::mismatch);
  cluster.kill(1);
  cluster.run_for(seconds(3));
  EXPECT_EQ(cluster.ranks[0]->watch->failure(kEverybody)->rank, 0);
  EXPECT_EQ(cluster.ranks[0]->watch->failure(kEverybody)->cause, ErrorCode::timeout);
}

}  // namespace
}  // namespace tutti::rendezvous
