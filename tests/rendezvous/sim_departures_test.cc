// Many deaths and departures, at once and one after the other: those who remain hear of each, and stay joined.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "effort.h"
#include "rendezvous/overlay.h"
#include "rendezvous/sim_fleet.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::testing::tries;

// Longest delay of the simulated network, over a few hops.
constexpr Time kSlack = milliseconds(200);
// Until a gap is bridged, or it is clear that nobody is beyond it.
constexpr Time kBridging = seconds(8);

// A fleet in which every rank has a group with each other one, so that it shows whose death it has heard of.
class Departures {
 public:
  Departures(std::uint64_t seed, int size, bool relinks)
      : random(seed), fleet(seed, {.size = size, .relinks = relinks}), died_(static_cast<std::size_t>(size)) {
    fleet.enter_everybody();
    for (int rank = 0; rank < size; ++rank) {
      for (int other = 0; other < size; ++other) {
        if (other != rank) fleet.watch(rank).enter(pair(rank, other), {rank, other});
      }
    }
  }

  GroupNumber pair(int rank, int other) const {
    return 1 + static_cast<GroupNumber>(rank) * static_cast<GroupNumber>(fleet.options.size) +
           static_cast<GroupNumber>(other);
  }
  void end(int rank, bool dies) {
    died_[static_cast<std::size_t>(rank)] = dies;
    dies ? fleet.kill(rank) : fleet.leave(rank);
  }
  bool died(int rank) const { return died_[static_cast<std::size_t>(rank)]; }
  bool heard_of_death(int rank, int of) { return fleet.watch(rank).failure(pair(rank, of)).has_value(); }
  bool heard_of_departure(int rank, int of) { return fleet.watch(rank).departed(kEverybody, of); }
  std::vector<int> shuffled_living() {
    std::vector<int> ranks = fleet.living();
    std::shuffle(ranks.begin(), ranks.end(), random);
    return ranks;
  }

  std::mt19937_64 random;
  Fleet fleet;

 private:
  std::vector<bool> died_;
};

// No link is made here: the graph holds.
TEST(SimDepartures, FewerAtOnceThanARankHasNeighboursAreAllHeardOf) {
  for (std::uint64_t seed = 0; seed < tries(300); ++seed) {
    const int size = 5 + static_cast<int>(seed * 2654435761u % 60);
    Departures job(seed, size, false);
    job.fleet.run_for(milliseconds(static_cast<int>(seed % 500)));
    std::vector<int> victims = job.shuffled_living();
    victims.resize(1 + job.random() % (neighbours_of(0, size).size() - 1));
    for (const int victim : victims) job.end(victim, job.random() % 2 == 0);
    job.fleet.run_for(kSlack);
    for (const int rank : job.fleet.living()) {
      for (const int victim : victims) {
        const bool died = job.died(victim);
        ASSERT_EQ(job.heard_of_death(rank, victim), died) << "seed " << seed << ", " << rank << " of " << victim;
        ASSERT_EQ(job.heard_of_departure(rank, victim), !died) << "seed " << seed << ", " << rank << " of " << victim;
      }
      for (const int other : job.fleet.living())
        ASSERT_TRUE(other == rank || !job.heard_of_death(rank, other)) << "seed " << seed << ", " << other;
    }
  }
}

// Whoever remains is told, and the next death, too, is heard of by all at once.
TEST(SimDepartures, OneAfterTheOtherUntilThreeAreLeft) {
  for (std::uint64_t seed = 0; seed < tries(60); ++seed) {
    const bool anybody_dies = seed % 2 == 0;
    Departures job(seed, 6 + static_cast<int>(seed * 2654435761u % 30), true);
    std::vector<int> order = job.shuffled_living();
    const std::vector<int> left(order.end() - 3, order.end());
    order.resize(order.size() - 3);
    for (const int victim : order) {
      job.end(victim, anybody_dies && job.random() % 2 == 0);
      if (job.random() % 2 == 0) job.fleet.run_for(milliseconds(job.random() % 700));
    }
    job.fleet.run_for(kBridging);
    for (const int rank : left) {
      for (const int victim : order) {
        const bool death = job.heard_of_death(rank, victim), departure = job.heard_of_departure(rank, victim);
        ASSERT_TRUE(death || departure) << "seed " << seed << ", " << rank << " of " << victim;
        ASSERT_TRUE(!death || job.died(victim)) << "seed " << seed << ", " << rank << " of " << victim;
      }
    }
    job.end(left[0], true);
    job.fleet.run_for(kSlack);
    EXPECT_TRUE(job.heard_of_death(left[1], left[0])) << "seed " << seed;
    EXPECT_TRUE(job.heard_of_death(left[2], left[0])) << "seed " << seed;
    EXPECT_FALSE(job.heard_of_death(left[1], left[2])) << "seed " << seed;
    if (::testing::Test::HasFailure()) return;
  }
}

// Sixty of 64 leave in one moment, which may leave nobody with a link; what is said meanwhile is not lost.
TEST(SimDepartures, TheFewWhoRemainFindEachOther) {
  for (std::uint64_t seed = 0; seed < tries(60); ++seed) {
    Departures job(seed, 64, true);
    job.fleet.run_for(milliseconds(300));
    std::vector<int> order = job.shuffled_living();
    const std::vector<int> left(order.end() - 4, order.end());
    order.resize(order.size() - 4);
    for (const int rank : order) job.end(rank, false);
    job.fleet.run_for(milliseconds(100));
    job.fleet.watch(left[3]).announce(kEverybody, 0, {4, 5, 6});
    job.fleet.watch(left[2]).leave(kEverybody);
    job.fleet.run_for(kBridging);
    for (const int rank : {left[0], left[1], left[3]}) {
      ASSERT_FALSE(job.fleet.watch(rank).failure(kEverybody)) << "seed " << seed;
      ASSERT_TRUE(job.heard_of_departure(rank, left[2])) << "seed " << seed;
      ASSERT_EQ(job.fleet.watch(rank).announced(kEverybody, left[3]).at(0), (Statement{4, 5, 6})) << "seed " << seed;
    }
    job.end(left[0], true);
    job.fleet.run_for(kSlack);
    for (const int rank : {left[1], left[2], left[3]})
      ASSERT_TRUE(job.heard_of_death(rank, left[0])) << "seed " << seed << ", " << rank;
  }
}

// A rank that is stopped answers nobody who wants to link up with it.
TEST(SimDepartures, WhoeverStopsInAGapIsFoundSilent) {
  Departures job(1, 16, true);
  job.fleet.run_for(milliseconds(300));
  for (int rank = 0; rank < 16; ++rank) {
    if (rank != 0 && rank != 5) job.end(rank, false);  // 5 is no neighbour of 0
  }
  job.fleet.world.freeze(5);
  job.fleet.run_for(seconds(20));
  ASSERT_TRUE(job.heard_of_death(0, 5));
  EXPECT_EQ(job.fleet.watch(0).failure(job.pair(0, 5))->loss, Loss::silent);
}

}  // namespace
}  // namespace tutti::rendezvous
