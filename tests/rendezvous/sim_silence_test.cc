// Silence in a simulated network: who is suspected, who is lost, and who only was late itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "effort.h"
#include "rendezvous/overlay.h"
#include "rendezvous/sim_cluster.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::testing::tries;

bool are_neighbours(int rank, int other, int size) {
  const std::vector<int> neighbours = neighbours_of(rank, size);
  return std::find(neighbours.begin(), neighbours.end(), other) != neighbours.end();
}

// Nothing tells the others but silence.
TEST(SimSilence, AFrozenRankCountsAsDeadAfterItsSilence) {
  for (std::uint64_t seed = 0; seed < tries(500); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.run_for(milliseconds(2000 + static_cast<int>(seed)));
    const int victim = static_cast<int>(seed % static_cast<unsigned>(cluster.options.size));
    cluster.world.freeze(cluster.ranks[static_cast<std::size_t>(victim)]->node);
    const Time frozen_at = cluster.world.now();
    cluster.run_until_all_failed(seconds(10));
    expect_all_name(cluster, victim, frozen_at + kSilence + kSlack, "seed " + std::to_string(seed));
    if (::testing::Test::HasFailure()) return;
  }
}

// A rank that did not run for a while must read what came meanwhile before it takes its peers for dead.
TEST(SimSilence, ARankThatWasLateItselfAccusesNobody) {
  for (std::uint64_t seed = 0; seed < tries(500); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.run_for(milliseconds(3000 + static_cast<int>(seed)));
    cluster.world.pause(cluster.ranks[0]->node, cluster.world.now() + kSilence * 2 / 3);
    cluster.run_for(seconds(5));
    for (const auto& rank : cluster.ranks)
      ASSERT_FALSE(rank->failed()) << "seed " << seed << ", rank " << rank->number << " names " << rank->named();
  }
}

// Stopped virtual machines, throttled containers. Silence begins with the last beat before the pause.
TEST(SimSilence, APauseBelowTheLimitIsSuspectedByNameAndEndsNothing) {
  std::uint64_t suspected = 0;
  for (std::uint64_t seed = 0; seed < tries(500); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.run_for(milliseconds(3000 + static_cast<int>(seed)));
    const int victim = static_cast<int>(seed % static_cast<unsigned>(cluster.options.size));
    const Time pause = Time((seed * 2654435761u) % static_cast<std::uint64_t>((kSilence - kBeat - kSlack).count()));
    cluster.world.pause(cluster.ranks[static_cast<std::size_t>(victim)]->node, cluster.world.now() + pause);
    cluster.run_for(seconds(5));
    for (const auto& rank : cluster.ranks) {
      const std::string what = "seed " + std::to_string(seed) + ", rank " + std::to_string(rank->number) + ", pause " +
                               std::to_string(pause.count());
      ASSERT_FALSE(rank->failed()) << what << " names " << rank->named();
      const bool watches = rank->number != victim && are_neighbours(rank->number, victim, cluster.options.size);
      const bool never = !watches || pause < kSuspicion - kBeat - kSlack;
      const bool surely = watches && pause > kSuspicion + kSlack;
      ASSERT_TRUE(rank->suspicions.empty() ? !surely : !never) << what;
      if (rank->suspicions.empty()) continue;
      ASSERT_EQ(rank->suspicions.size(), 2u) << what;
      EXPECT_EQ(rank->suspicions[0].rank, victim) << what;
      EXPECT_FALSE(rank->suspicions[0].heard_again) << what;
      EXPECT_GE(rank->suspicions[0].silent, kSuspicion) << what;
      EXPECT_EQ(rank->suspicions[1].rank, victim) << what;
      EXPECT_TRUE(rank->suspicions[1].heard_again) << what;
      EXPECT_GE(rank->suspicions[1].silent, rank->suspicions[0].silent) << what;
      ++suspected;
    }
  }
  EXPECT_GT(suspected, tries(500));
}

TEST(SimSilence, APauseAboveTheLimitIsNamedByEveryRankThatOfTheSilentOneIncluded) {
  for (std::uint64_t seed = 0; seed < tries(500); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.run_for(milliseconds(3000 + static_cast<int>(seed)));
    const int victim = static_cast<int>(seed % static_cast<unsigned>(cluster.options.size));
    const Time paused_at = cluster.world.now();
    const Time pause = kSilence + kSlack + milliseconds(seed * 7);
    cluster.world.pause(cluster.ranks[static_cast<std::size_t>(victim)]->node, paused_at + pause);
    cluster.run_for(pause + seconds(2));
    expect_all_name(cluster, victim, paused_at + kSilence + kSlack, "seed " + std::to_string(seed));
    for (const auto& rank : cluster.ranks) {
      ASSERT_TRUE(rank->watch->failure(kEverybody)) << "seed " << seed << ", rank " << rank->number;
      EXPECT_EQ(rank->named(), victim) << "seed " << seed << ", rank " << rank->number;
      EXPECT_EQ(rank->watch->failure(kEverybody)->loss, Loss::silent) << "seed " << seed << ", rank " << rank->number;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// A slow link holds beats back behind data; that data comes shows that its sender lives.
TEST(SimSilence, DataBreaksASilence) {
  World world(1);
  const int here = world.add_node(), there = world.add_node();
  world.listen(there, "there:1");
  const ConnectionId connection = world.network(here).connect("there:1");
  Watch watch(world.network(here), {0, 2, kSilence, {{1, connection}}, kSuspicion}, Time(0));
  watch.enter(kEverybody, everybody(2));
  Time now{}, last_data{};
  watch.set_quiet_for([&](int peer) {
    EXPECT_EQ(peer, 1);
    return now - last_data;
  });
  const auto run_until = [&](Time end, bool data) {
    while (!watch.failure(kEverybody) && watch.next_tick() <= end) {
      now = watch.next_tick();
      if (data) last_data = now - milliseconds(20);
      watch.tick(now);
    }
    now = end;
  };
  run_until(seconds(30), true);
  EXPECT_FALSE(watch.failure(kEverybody));
  EXPECT_TRUE(watch.take_suspicions().empty());
  run_until(last_data + kSilence - milliseconds(1), false);
  EXPECT_FALSE(watch.failure(kEverybody));
  EXPECT_EQ(watch.take_suspicions().size(), 1u);
  run_until(now + kBeat, true);
  const auto suspicions = watch.take_suspicions();
  ASSERT_EQ(suspicions.size(), 1u);
  EXPECT_TRUE(suspicions[0].heard_again);
  run_until(last_data + kSilence, false);
  ASSERT_TRUE(watch.failure(kEverybody));
  EXPECT_EQ(watch.failure(kEverybody)->loss, Loss::silent);
}

// The kernel dates data by a clock that steps some milliseconds at a time, and looks come late on a busy machine: what
// they find of one and the same moment wavers.
TEST(SimSilence, AWaveringDateOfTheLastDataIsNoSignOfLife) {
  const Time last_data = seconds(2), step = milliseconds(4), latest = milliseconds(20);
  for (std::uint64_t seed = 0; seed < tries(500); ++seed) {
    World world(seed);
    const int here = world.add_node(), there = world.add_node();
    world.listen(there, "there:1");
    const ConnectionId connection = world.network(here).connect("there:1");
    Watch watch(world.network(here), {0, 2, kSilence, {{1, connection}}, kSuspicion}, Time(0));
    watch.enter(kEverybody, everybody(2));
    std::mt19937_64 random(seed);
    Time now{}, named{};
    watch.set_quiet_for([&](int) { return now / step * step - std::min(now, last_data) / step * step; });
    while (!watch.failure(kEverybody) && now < seconds(30)) {
      watch.tick(named = now);
      now = watch.next_tick() + Time(random() % static_cast<std::uint64_t>(latest.count()));
    }
    const auto suspicions = watch.take_suspicions();
    ASSERT_EQ(suspicions.size(), 1u) << "seed " << seed << ": it was heard again without a word of it";
    EXPECT_FALSE(suspicions[0].heard_again);
    ASSERT_TRUE(watch.failure(kEverybody));
    EXPECT_LE(named, last_data + kSilence + step + latest) << "seed " << seed;
  }
}

// A job that is stopped as a whole and goes on, as Ctrl-Z and fg do: its ranks wake one after the other.
TEST(SimSilence, RanksThatWereStoppedTogetherAccuseNobody) {
  for (std::uint64_t seed = 0; seed < tries(300); ++seed) {
    Cluster cluster(seed, linked_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    cluster.run_for(milliseconds(3000 + static_cast<int>(seed)));
    Time wakes = cluster.world.now() + seconds(30);
    for (const auto& rank : cluster.ranks) cluster.world.pause(rank->node, wakes += kBeat / 2 / cluster.options.size);
    cluster.run_for(seconds(40));
    for (const auto& rank : cluster.ranks)
      ASSERT_FALSE(rank->failed()) << "seed " << seed << ", rank " << rank->number << " names " << rank->named();
  }
}

// The same without chance: a tick that comes far too late, then what had come meanwhile.
TEST(SimSilence, ALateTickReadsBeforeItJudges) {
  for (const bool peer_lives : {true, false}) {
    World world(1);
    const int here = world.add_node(), there = world.add_node();
    world.listen(there, "there:1");
    const ConnectionId connection = world.network(here).connect("there:1");
    Watch watch(world.network(here), {0, 2, kSilence, {{1, connection}}}, Time(0));
    watch.enter(kEverybody, everybody(2));
    watch.tick(Time(0));
    const Time late = seconds(20);
    watch.tick(late);
    EXPECT_FALSE(watch.failure(kEverybody)) << "nothing has been read yet";
    if (peer_lives) watch.received(connection, beat_frame(), late);
    const Time next = watch.next_tick();
    EXPECT_LT(next, late + kSilence / 2);
    watch.tick(next);
    EXPECT_EQ(watch.failure(kEverybody).has_value(), !peer_lives);
  }
}

}  // namespace
}  // namespace tutti::rendezvous
