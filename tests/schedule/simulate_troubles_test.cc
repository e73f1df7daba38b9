// The simulator where something is wrong, and what it tells about it: slow and failed links, traffic of others, waits,
// the critical path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "schedule/simulated_clusters.h"
#include "topology/link_names.h"
#include "topology/presets.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using ::testing::HasSubstr;

std::string error_of(const SimulateOptions& options, const topology::Topology& topology) {
  try {
    run(Verb::all_reduce, "ring", topology.ranks(), options, topology);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Troubles, ASlowLinkSetsThePace) {
  const topology::Topology cluster = crossbar(8);
  SimulateOptions options;
  options.count = 1 << 20;
  const double even = run(Verb::all_reduce, "ring", 8, options, cluster).seconds;
  options.slow_links = {{topology::find_links(cluster, "node 3 of host 0 to switch 0 of host 0").front(), 4}};
  const Simulated slowed = run(Verb::all_reduce, "ring", 8, options, cluster);
  EXPECT_NEAR(slowed.seconds / even, 4, 0.2);  // latencies stay as they are
  EXPECT_EQ(slowed.links.front().link, options.slow_links.front().link);
  EXPECT_GT(slowed.links.front().utilisation, 0.9);
  options.slow_links = {{cluster.directed_links(), 4}};
  EXPECT_THAT(error_of(options, cluster), HasSubstr("there is no link"));
}

TEST(Troubles, ARankThatStartsLateIsWaitedFor) {
  const topology::Topology cluster = crossbar(8);
  SimulateOptions options;
  options.count = 1 << 20;
  const double on_time = run(Verb::all_reduce, "ring", 8, options, cluster).seconds;
  options.late_starts = {{3, 1.0}};
  const std::vector<double> ends = run(Verb::all_reduce, "ring", 8, options, cluster).ends;
  for (const double end : ends) {
    EXPECT_GT(end, 1.0) << "all need what it has";
    EXPECT_LT(end, 1.0 + on_time * (1 + 1e-6)) << "and what could be done before was done";
  }
  options.late_starts = {{8, 1.0}};
  EXPECT_THAT(error_of(options, cluster), HasSubstr("rank 8 cannot start late: there are ranks 0 to 7"));
  options.late_starts = {{0, -1.0}};
  EXPECT_THAT(error_of(options, cluster), HasSubstr("not negative"));
}

TEST(Troubles, WaysLeadAroundLinksThatHaveFailed) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:4");
  SimulateOptions options;
  options.count = 1 << 16;
  const auto links_used = [&] {
    std::set<std::int64_t> links;
    for (const Simulated::Link& link : run(Verb::all_to_all, "spread_out", 32, options, cluster).links)
      links.insert(link.link);
    return links;
  };
  const std::vector<std::int64_t> spine = topology::find_links(cluster, "leaf 2 and spine 5");
  ASSERT_TRUE(links_used().contains(spine.front()));
  options.failed_links = spine;
  for (const std::int64_t link : spine) EXPECT_FALSE(links_used().contains(link));
}

TEST(Troubles, WhoHasNoWayLeftIsTold) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:2");
  SimulateOptions options;
  options.count = 1000;
  options.failed_links = topology::find_links(cluster, "gpu 7 of host 0 to ndr 7 of host 0");
  EXPECT_THAT(error_of(options, cluster), HasSubstr("no way leads from gpu 7 of host 0 to gpu 0 of host 1 without the "
                                                    "links that have failed"));
}

TEST(Troubles, TrafficOfOthersIsDrawnFromItsSeed) {
  const topology::Topology cluster = crossbar(8);
  SimulateOptions options;
  options.count = 1 << 20;
  const double alone = run(Verb::all_reduce, "ring", 8, options, cluster).seconds;
  options.background = {6, 1 << 18};
  const auto time = [&](std::uint64_t seed) {
    options.seed = seed;
    return run(Verb::all_reduce, "ring", 8, options, cluster).seconds;
  };
  EXPECT_EQ(time(1), time(1));
  EXPECT_NE(time(1), time(2));
  EXPECT_GT(time(1), 1.2 * alone);
  EXPECT_LT(time(1), 8 * alone);
}

TEST(Troubles, TrafficOfOthersCountsWhileItIsUnderWay) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:2");
  SimulateOptions options;
  options.count = 1 << 20;
  options.background = {8, 1e12};  // none of which ends
  const Simulated simulated = run(Verb::all_reduce, "ring", 16, options, cluster);
  double most = 0;
  for (const Simulated::Link& link : simulated.links) most = std::max(most, link.utilisation);
  EXPECT_GT(most, 0.9);
  EXPECT_LE(most, 1 + 1e-9);
  options.background.bytes = 1;
  EXPECT_THROW(run(Verb::all_reduce, "ring", 16, options, cluster), Error);
}

TEST(Troubles, AStragglerIsWaitedForMost) {
  SimulateOptions options;
  options.count = 1 << 20;
  options.stragglers = {{5, 3}};
  const Simulated simulated = run(Verb::all_reduce, "ring", 8, options, crossbar(8));
  ASSERT_FALSE(simulated.waits.empty());
  EXPECT_EQ(simulated.waits.front().rank, 6);
  EXPECT_EQ(simulated.waits.front().peer, 5);
  EXPECT_EQ(simulated.waits.front().cause, Simulated::Cause::message);
}

// Each hop fires as much later than the one before as is told of it, from the first start to the last end.
void expect_accounted_for(const Simulated& simulated) {
  const std::vector<Simulated::Hop>& hops = simulated.path.hops;
  ASSERT_GT(hops.size(), 1u);
  ASSERT_TRUE(simulated.path.whole);
  EXPECT_EQ(simulated.path.steps, hops.size() - 1);
  double before = hops.front().fired_s;
  EXPECT_EQ(simulated.path.begin_s, before);
  EXPECT_NEAR(before + simulated.path.spent.sum(), simulated.seconds, 1e-5 * simulated.seconds);
  for (std::size_t i = 1; i < hops.size(); ++i) {
    ASSERT_NEAR(hops[i].fired_s - before, hops[i].spent.sum(), 1e-6 * simulated.seconds) << "hop " << i;
    before = hops[i].fired_s;
  }
  EXPECT_DOUBLE_EQ(before, simulated.seconds);
}

TEST(CriticalPath, AccountsForAllTheTime) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:4");
  for (const Algorithm& row : algorithms()) {
    if (!only_sends(row) || row.single_copy || row.verb == Verb::send_recv) continue;
    SCOPED_TRACE(std::string(name_of(row.verb)) + " by " + std::string(row.name));
    SimulateOptions options;
    options.count = 50'000;
    options.reduced_bytes_per_s = 20e9;
    options.copied_bytes_per_s = 50e9;
    options.skew_s = 1e-5;
    options.history = true;
    expect_accounted_for(simulate(lower_all(row, 32, ideal(64 << 10)), cluster, options));
    options.skew_s = 0;
    expect_accounted_for(simulate(lower_all(row, 32, ideal(64 << 10)), cluster, options));
  }
}

// Of a binomial broadcast it is alpha and the bytes, once for each round.
TEST(CriticalPath, IsMadeOfWhatTheClosedFormHas) {
  SimulateOptions options;
  options.count = 1 << 18;
  options.history = true;
  const Simulated simulated = run(Verb::broadcast, "binomial", 16, options, crossbar(16));
  const Simulated::Spent& spent = simulated.path.spent;
  EXPECT_NEAR(spent.sending_s, 4 * 4 * (1 << 18) / kBandwidth, 1e-6 * spent.sending_s);
  EXPECT_GE(spent.latency_s, kAlpha * (1 - 1e-6));
  EXPECT_LE(spent.latency_s, 4 * kAlpha * (1 + 1e-6));
}

TEST(CriticalPath, StaysWithTheStraggler) {
  SimulateOptions options;
  options.count = 1 << 20;
  options.stragglers = {{5, 10}};
  options.history = true;
  const Simulated simulated = run(Verb::all_reduce, "ring", 8, options, crossbar(8));
  const std::vector<Simulated::Hop>& hops = simulated.path.hops;
  const auto there = std::count_if(hops.begin(), hops.end(), [](const Simulated::Hop& hop) { return hop.rank == 5; });
  EXPECT_GT(there, static_cast<std::ptrdiff_t>(hops.size() / 2));
  ASSERT_FALSE(simulated.activities.empty());
  for (const Simulated::Activity& activity : simulated.activities) {
    EXPECT_LT(activity.begin_s, activity.end_s);
    EXPECT_LE(activity.end_s, simulated.seconds);
  }
}

TEST(Activities, SayWhichStepTheyArePartOf) {
  SimulateOptions options;
  options.count = 1 << 12;
  options.history = true;
  options.fold = false;
  const Simulated simulated = run(Verb::all_reduce, "ring", 4, options, crossbar(4));
  std::vector<std::vector<std::uint32_t>> steps(4);
  for (const Simulated::Activity& activity : simulated.activities) {
    EXPECT_EQ(activity.kind, Simulated::Activity::Kind::sending) << "computing takes no time";
    steps[static_cast<std::size_t>(activity.rank)].push_back(activity.step);
  }
  for (const std::vector<std::uint32_t>& sent : steps)
    EXPECT_EQ(sent, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5})) << "the last step sends nothing";
}

}  // namespace
}  // namespace tutti::schedule
