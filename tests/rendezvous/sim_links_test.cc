// Data links that are made when they are wanted: one for each pair and channel, whoever wanted it first, also while
// ranks leave and die.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

#include "effort.h"
#include "rendezvous/recorder.h"
#include "rendezvous/sim_fleet.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::testing::tries;

// Keeps what each rank of a fleet has been told of its links.
class LinkedFleet {
 public:
  LinkedFleet(std::uint64_t seed, int size)
      : random(seed), fleet(seed, {.size = size}), made_(static_cast<std::size_t>(size)), absent_(made_.size()) {
    fleet.enter_everybody();
  }

  void want(int rank, int peer, std::uint32_t channel) {
    fleet.watch(rank).want_link(peer, channel, fleet.world.now());
    wanted.insert({rank, peer, channel});
    fleet.world.poke(rank);
    collect();
  }
  void run_for(Time duration) {
    fleet.run_for(duration);
    collect();
  }
  // As a data plane does: what was sent on its links arrives before they end.
  void leave(int rank) {
    for (const auto& [key, connection] : made_[static_cast<std::size_t>(rank)])
      fleet.world.network(rank).close(connection);
    fleet.leave(rank);
  }
  std::size_t links(int rank, int peer, std::uint32_t channel) const {
    return made_[static_cast<std::size_t>(rank)].count({peer, channel});
  }
  bool absent(int rank, int peer, std::uint32_t channel) const {
    return absent_[static_cast<std::size_t>(rank)].contains({peer, channel});
  }
  // The rank and the connection at the other end of the one link there is.
  std::pair<int, ConnectionId> other_end(int rank, int peer, std::uint32_t channel) const {
    return fleet.world.other_end(made_[static_cast<std::size_t>(rank)].find({peer, channel})->second);
  }
  ConnectionId link(int rank, int peer, std::uint32_t channel) const {
    return made_[static_cast<std::size_t>(rank)].find({peer, channel})->second;
  }
  void collect() {
    for (int rank = 0; rank < fleet.options.size; ++rank) {
      for (const Linker::Made& made : fleet.watch(rank).take_data_links())
        made_[static_cast<std::size_t>(rank)].emplace(made.key, made.connection);
      for (const Linker::Key& key : fleet.watch(rank).take_absent_links())
        absent_[static_cast<std::size_t>(rank)].insert(key);
    }
  }

  std::mt19937_64 random;
  Fleet fleet;
  std::set<std::tuple<int, int, std::uint32_t>> wanted;

 private:
  std::vector<std::multimap<Linker::Key, ConnectionId>> made_;
  std::vector<std::set<Linker::Key>> absent_;
};

// Wishes of both ends cross, are repeated, and come at any time.
TEST(SimLinks, AreMadeOnceForAPairAndAChannel) {
  for (std::uint64_t seed = 0; seed < tries(200); ++seed) {
    LinkedFleet job(seed, 2 + static_cast<int>(seed % 9));
    const int size = job.fleet.options.size;
    for (int wish = 0; wish < 3 * size; ++wish) {
      const int rank = static_cast<int>(job.random() % static_cast<std::uint64_t>(size));
      const int peer = (rank + 1 + static_cast<int>(job.random() % static_cast<std::uint64_t>(size - 1))) % size;
      job.want(rank, peer, static_cast<std::uint32_t>(job.random() % 2));
      if (job.random() % 2 == 0) job.run_for(milliseconds(job.random() % 40));
    }
    job.run_for(seconds(3));
    for (const auto& [rank, peer, channel] : job.wanted) {
      ASSERT_EQ(job.links(rank, peer, channel), 1u) << "seed " << seed << ", " << rank << " with " << peer;
      ASSERT_EQ(job.links(peer, rank, channel), 1u) << "seed " << seed << ", " << peer << " with " << rank;
      ASSERT_EQ(job.other_end(rank, peer, channel), std::pair(peer, job.link(peer, rank, channel))) << "seed " << seed;
      ASSERT_FALSE(job.fleet.watch(rank).failure(kEverybody)) << "seed " << seed;
    }
  }
}

// Whoever wants a link with a rank that leaves gets it, or is told that there is none, and then the other end had none
// either: what it had sent would be lost.
TEST(SimLinks, WithWhoeverLeavesStandAtBothEndsOrNeverDid) {
  int made = 0, absent = 0;
  for (std::uint64_t seed = 0; seed < tries(400); ++seed) {
    LinkedFleet job(seed, 3 + static_cast<int>(seed % 6));
    const int size = job.fleet.options.size, leaver = static_cast<int>(job.random() % static_cast<std::uint64_t>(size));
    job.run_for(milliseconds(100));
    for (int rank = 0; rank < size; ++rank) {
      if (rank == leaver) continue;
      if (job.random() % 4 != 0) job.want(rank, leaver, 0);
      if (job.random() % 2 == 0) job.want(leaver, rank, 0);
    }
    job.run_for(milliseconds(job.random() % 120));
    job.leave(leaver);
    job.run_for(seconds(12));
    for (const auto& [rank, peer, channel] : job.wanted) {
      if (rank == leaver) continue;
      const bool stands = job.links(rank, leaver, 0) == 1;
      ASSERT_NE(stands, job.absent(rank, leaver, 0)) << "seed " << seed << ", rank " << rank;
      if (job.links(leaver, rank, 0) != 0) {
        ASSERT_TRUE(stands) << "seed " << seed << ": what " << leaver << " may have sent to " << rank << " is lost";
      }
      ++(stands ? made : absent);
      ASSERT_FALSE(job.fleet.watch(rank).failure(kEverybody)) << "seed " << seed;
    }
  }
  EXPECT_GT(made, 0);
  EXPECT_GT(absent, 0);
}

TEST(SimLinks, WithWhoeverDiesEndInTheOrdinaryFailure) {
  for (std::uint64_t seed = 0; seed < tries(100); ++seed) {
    LinkedFleet job(seed, 5);
    const int victim = static_cast<int>(job.random() % 5);
    for (int rank = 0; rank < 5; ++rank) {
      if (rank != victim) job.want(rank, victim, 1);
    }
    job.run_for(milliseconds(job.random() % 120));
    job.fleet.kill(victim);
    job.run_for(milliseconds(300));
    for (const int rank : job.fleet.living()) {
      const auto failure = job.fleet.watch(rank).failure(kEverybody);
      ASSERT_TRUE(failure && failure->rank == victim && failure->died) << "seed " << seed << ", rank " << rank;
    }
  }
}

// It hears nobody, but no beat is missed yet when it is first wanted.
TEST(SimLinks, ARankThatNobodyCanReachIsLostAndTheReasonTold) {
  Fleet fleet(1, {.size = 4, .silence = Time(0), .suspicion = Time(0)});
  fleet.enter_everybody();
  fleet.world.freeze(2);
  fleet.watch(3).want_link(2, 0, fleet.world.now());
  fleet.world.poke(3);
  fleet.run_for(seconds(19));
  EXPECT_FALSE(fleet.watch(3).failure(kEverybody));
  fleet.run_for(seconds(3));
  for (const int rank : {0, 1, 3}) {
    const auto failure = fleet.watch(rank).failure(kEverybody);
    ASSERT_TRUE(failure) << rank;
    EXPECT_EQ(failure->rank, 2);
    EXPECT_EQ(failure->loss, Loss::unreachable);
  }
  const std::vector<std::string> troubles = fleet.watch(3).take_troubles();
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_NE(troubles[0].find("rank 3 cannot link up with rank 2 at rank2:1: no answer"), std::string::npos)
      << troubles[0];
}

// Where strangers hold what a link needs they go, and it is dialled again; else it never comes to be.
TEST(SimLinks, AreDialledAgainWhereDescriptorsCouldBeGotBack) {
  Recorder network;
  LinkOptions linking;
  linking.endpoint_of = [](int rank) { return "rank" + std::to_string(rank) + ":1"; };
  linking.channels = 1;
  Watch watch(network, {.rank = 0, .size = 2, .links = {{1, 1}}, .linking = linking}, Time(0));
  int closing = 1;
  watch.set_make_room([&] { return std::exchange(closing, 0) > 0; });
  watch.accepted(2, "silent", Time(0));
  watch.want_link(1, 0, Time(0));
  Time now(0);
  for (ConnectionId dialled = 1000; dialled < 1002; ++dialled) {
    ASSERT_TRUE(network.dialled.contains(dialled));
    watch.closed(dialled, End::exhausted, "no descriptor is left", now);
    EXPECT_EQ(watch.own_trouble(), "");
    if (dialled == 1000) watch.accepted(3, "silent", now);
    watch.tick(now += milliseconds(100));
  }
  EXPECT_EQ(closing, 0) << "what the network keeps for closing ends goes first";
  EXPECT_TRUE(network.closed.contains(2) && network.closed.contains(3)) << "and whoever has not said who it is";
  ASSERT_TRUE(network.dialled.contains(1002));
  watch.closed(1002, End::exhausted, "no descriptor is left", now);
  EXPECT_EQ(watch.own_trouble(), "no descriptor is left");
}

}  // namespace
}  // namespace tutti::rendezvous
