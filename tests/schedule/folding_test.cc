// Ranks that are simulated once: the same figures as one by one, and only where ranks fare alike.
#include <gtest/gtest.h>

#include <span>
#include <string>

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
