// Ranks that are simulated once: the same figures as one by one, and only where ranks fare alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "schedule/fold.h"
#include "schedule/simulated_clusters.h"
#include "topology/presets.h"

namespace tutti::schedule {
namespace {

// What folding may not change.
void expect_same(const Simulated& folded, const Simulated& whole) {
  EXPECT_NEAR(folded.seconds, whole.seconds, 1e-9 * whole.seconds);
  ASSERT_EQ(folded.ends.size(), whole.ends.size());
  for (std::size_t rank = 0; rank < whole.ends.size(); ++rank)
    ASSERT_NEAR(folded.ends[rank], whole.ends[rank], 1e-9 * whole.seconds) << "rank " << rank;
  double bytes = 0, folded_bytes = 0, waited = 0, folded_waited = 0;
  for (const Simulated::Link& link : whole.links) bytes += link.bytes;
  for (const Simulated::Link& link : folded.links) folded_bytes += link.bytes * link.alike;
  EXPECT_NEAR(folded_bytes, bytes, 1e-9 * bytes);
  for (const Simulated::Wait& wait : whole.waits) waited += wait.seconds;
  for (const Simulated::Wait& wait : folded.waits) folded_waited += wait.seconds * wait.alike;
  EXPECT_NEAR(folded_waited, waited, 1e-6 * whole.seconds * static_cast<double>(whole.ends.size()));
}

Simulated unfolded(std::span<const Lowered> programs, const topology::Topology& topology, SimulateOptions options) {
  options.fold = false;
  return simulate(programs, topology, options);
}

TEST(Folding, ARingOf256FaresAsItDoesUnfolded) {
  const auto programs = lower_all(*find_algorithm(Verb::all_reduce, "ring"), 256, ideal());
  SimulateOptions options;
  options.count = 256 * 1024;
  options.reduced_bytes_per_s = 20e9;
  const Simulated folded = simulate(programs, crossbar(256), options);
  EXPECT_EQ(folded.simulated_ranks, 1);
  EXPECT_EQ(folded.links.front().alike, 256u);  // all that lead up, or all that lead down
  expect_same(folded, unfolded(programs, crossbar(256), options));
}

// Over whole hosts, along rails and through uplinks that several ranks share, whatever the algorithm.
TEST(Folding, ChangesNothingForAnyAlgorithmOnAnyCluster) {
  int times = 0;
  for (const char* name : {"dgx-h100:4", "cpu-25gbe:32", "gb200-nvl72:1"}) {
    const topology::Topology cluster = topology::find_preset(name);
    for (const Algorithm& row : algorithms()) {
      if (row.user_windows || row.scratch_windows || row.single_copy || row.verb == Verb::send_recv) continue;
      SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(row.verb)) + " by " + std::string(row.name));
      SimulateOptions options;
      options.count = 32 * 64 * 16;
      options.reduced_bytes_per_s = 20e9;
      options.step_s = 1e-7;
      const auto programs = lower_all(row, 32, ideal(32 << 10));
      const Simulated folded = simulate(programs, cluster, options);
      expect_same(folded, unfolded(programs, cluster, options));
      times += folded.simulated_ranks < 32 ? 1 : 0;
    }
  }
  EXPECT_GT(times, 20) << "there was little to compare";
}

// Hosts first, for every verb that has such a row, on hosts of one size and of several, with a straggler and without.
TEST(Folding, ChangesNothingForHierarchies) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:4");
  int times = 0, rows = 0;
  for (const Algorithm& row : algorithms()) {
    if (!row.hierarchical || !only_sends(row) || row.single_copy) continue;
    ++rows;
    for (const std::vector<int>& sizes : {std::vector{8, 8, 8, 8}, {4, 4, 4, 4}, {3, 8, 5, 8}, {8, 8, 8, 1}}) {
      for (const bool slow : {false, true}) {
        SCOPED_TRACE(std::string(name_of(row.verb)) + " by " + std::string(row.name) + " on hosts of " +
                     ::testing::PrintToString(sizes) + (slow ? ", with a straggler" : ""));
        Offers offers = ideal(32 << 10);
        offers.across = offers.inside;
        offers.hosts = Hosts::in_blocks(sizes);
        const int ranks = static_cast<int>(offers.hosts.by_rank().size());
        SimulateOptions options;
        options.count = 32 * 64 * 16 * 15;
        options.reduced_bytes_per_s = 20e9;
        options.step_s = 1e-7;
        if (slow) options.stragglers = {{ranks / 2, 3}};
        const auto programs = lower_all(row, ranks, offers);
        const Simulated folded = simulate(programs, cluster, options);
        expect_same(folded, unfolded(programs, cluster, options));
        // Of a rooted verb no host is like the root's, and in reduce_scatter each hears from others in its own order.
        const bool alike = row.verb == Verb::all_reduce || row.verb == Verb::all_gather || row.verb == Verb::all_to_all;
        if (alike && !slow && std::ranges::count(sizes, sizes[0]) == 4) {
          // Of two groups on one host of the cluster, one has the other as its neighbour, where the other looks across.
          EXPECT_LE(folded.simulated_ranks, cluster.devices_per_host());
          ++times;
        }
      }
    }
  }
  EXPECT_GE(rows, 8);
  EXPECT_GE(times, 8) << "there was little to compare";
}

// The ranks of a host differ in the order in which they hear from each other, and hosts in nothing: as many classes as
// a host has ranks, also where columns cross the spine. Ways by a hash tell hosts apart: some links have more to do.
TEST(Folding, LeavesOneHostOfAHierarchy) {
  topology::Topology cluster = topology::find_preset("dgx-h100:64");
  Offers offers = ideal();
  offers.across = offers.inside;
  offers.hosts = Hosts::in_blocks(std::vector<int>(64, 8));
  const auto programs = lower_all(*find_algorithm(Verb::all_reduce, "hierarchical"), 512, offers);
  SimulateOptions options;
  options.count = 512 * 1024;
  const Simulated folded = simulate(programs, cluster, options);
  EXPECT_EQ(folded.simulated_ranks, 8);
  expect_same(folded, unfolded(programs, cluster, options));
  options.stragglers = {{100, 2}};
  EXPECT_EQ(simulate(programs, cluster, options).simulated_ranks, 512);
  options.stragglers.clear();
  cluster.routing = topology::Routing::ecmp;
  EXPECT_GT(simulate(programs, cluster, options).simulated_ranks, 8);
}

// Hosts of one kind stand for each other, those of another do not.
TEST(Folding, KeepsKindsOfHostsApart) {
  const topology::Topology cluster = topology::parse_topology(R"(topology kinds
hosts 4 fat 4 thin
routing fixed
device gpu 8 thin 2
bridge nvswitch 1
nic nic 8 thin 1
switch leaf 1
link gpu nvswitch each 450 GB/s 1 us
link gpu nic each 60 GB/s 1 us thin 30 GB/s 2 us
link nic leaf each 50 GB/s 1 us
)",
                                                              "kinds");
  Offers offers = ideal();
  offers.across = offers.inside;
  offers.hosts = Hosts::in_blocks(std::vector<int>{8, 8, 8, 8, 2, 2, 2, 2});
  SimulateOptions options;
  options.count = 40 * 1024;
  const auto programs = lower_all(*find_algorithm(Verb::all_reduce, "hierarchical"), cluster.ranks(), offers);
  const Simulated folded = simulate(programs, cluster, options);
  EXPECT_EQ(folded.simulated_ranks, 8 + 2);
  expect_same(folded, unfolded(programs, cluster, options));
  topology::Topology quick = cluster;
  quick.links[1].others.clear();
  EXPECT_LT(simulate(programs, quick, options).seconds, folded.seconds);
}

// Whatever tells one rank from the others keeps them apart, as far as it does.
TEST(Folding, StopsWhereSymmetryDoes) {
  const auto programs = lower_all(*find_algorithm(Verb::all_reduce, "ring"), 16, ideal());
  const auto cluster = crossbar(16);
  const auto ranks_of = [&](SimulateOptions options) {
    options.count = options.count == 0 ? 16 * 1024 : options.count;
    const Simulated folded = simulate(programs, cluster, options);
    expect_same(folded, unfolded(programs, cluster, options));
    return folded.simulated_ranks;
  };
  SimulateOptions options;
  EXPECT_EQ(ranks_of(options), 1);
  options.stragglers = {{3, 2}};
  EXPECT_EQ(ranks_of(options), 16);
  options = {};
  options.skew_s = 1e-5;
  EXPECT_EQ(ranks_of(options), 16);
  options = {};
  options.slow_links = {{cluster.route(2, 3).links.front(), 2}};
  EXPECT_EQ(ranks_of(options), 16);
  options = {};
  options.background.flows = 1;
  EXPECT_EQ(ranks_of(options), 16);
  options = {};
  options.count = 16 * 1024 - 1;  // the last block is shorter than the others
  EXPECT_EQ(ranks_of(options), 16);
}

// Rows that say so have one text for all ranks, in which every peer is named by its distance; others do not.
TEST(Folding, RowsWhoseRanksAreAlikeSaySo) {
  for (const Algorithm& row : algorithms()) {
    if (!only_sends(row) || row.single_copy || row.verb == Verb::send_recv) continue;
    bool alike = true;
    for (int ranks = 2; ranks <= 33; ++ranks)
      alike = alike && (!fits(row, ranks) || fold_ranks(lower_all(row, ranks, ideal())).size() == 1);
    EXPECT_EQ(row.alike, alike) << name_of(row.verb) << " by " << row.name;
  }
}

TEST(Folding, OneProgramSaysItForAllWhereTheyAreAlike) {
  const Algorithm& row = *find_algorithm(Verb::all_to_all, "spread_out");
  int asked = 0;
  const auto of = [&](int rank) {
    ++asked;
    return lower(row, {24, rank, 0, {}}, ideal());
  };
  SimulateOptions options;
  options.count = 1000;
  const Simulated alike = simulate({24, of, true}, topology::find_preset("dgx-h100:3"), options);
  EXPECT_LE(asked, 2);
  expect_same(alike, unfolded(lower_all(row, 24, ideal()), topology::find_preset("dgx-h100:3"), options));
}

}  // namespace
}  // namespace tutti::schedule
