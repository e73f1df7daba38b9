// The cluster that fits what was measured between ranks.
#include "topology/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

// Inside hosts 10 GB/s and 1 us, across 2 GB/s and 20 us; one pair of each is far off, as measurements are.
MeasuredPairs pairs_on(const std::vector<int>& hosts) {
  const auto ranks = static_cast<int>(hosts.size());
  MeasuredPairs measured(ranks, Hosts(hosts));
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to)
      measured.at(from, to) = measured.hosts().share(from, to) ? LinkSpeed{10e9, 1e-6} : LinkSpeed{2e9, 20e-6};
  }
  if (ranks > 2) measured.at(0, 1) = measured.at(0, ranks - 1) = {1e6, 1};
  return measured;
}

double narrowest(const Topology& topology, int from, int to) {
  double least = 1e18;
  for (const std::int64_t link : topology.route(from, to).links)
    least = std::min(least, topology.speed_of(link).bytes_per_s);
  return least;
}

TEST(MeasuredPairs, BecomeAClusterThatIsAsFast) {
  const Topology topology = topology_of(pairs_on({0, 0, 0, 1, 1, 1}), "found");
  EXPECT_EQ(topology.hosts, 2);
  EXPECT_EQ(topology.ranks(), 6);
  EXPECT_NEAR(topology.route(0, 1).latency_s, 1e-6, 1e-9);
  EXPECT_NEAR(topology.route(0, 3).latency_s, 20e-6, 1e-8);
  EXPECT_DOUBLE_EQ(narrowest(topology, 0, 1), 10e9);
  EXPECT_DOUBLE_EQ(narrowest(topology, 2, 5), 2e9);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
}

TEST(MeasuredPairs, OfOneHostNeedNoNetwork) {
  const Topology topology = topology_of(pairs_on({0, 0}), "found");
  EXPECT_EQ(topology.parts.size(), 2u);
  EXPECT_NEAR(topology.route(1, 0).latency_s, 1e-6, 1e-9);
}

TEST(MeasuredPairs, OfOneRankAHostNeedNoMemory) {
  const Topology topology = topology_of(pairs_on({0, 1}), "found");
  EXPECT_EQ(topology.parts.size(), 3u);
  EXPECT_NEAR(topology.route(0, 1).latency_s, 20e-6, 1e-8);
}

TEST(MeasuredPairs, OfHostsWithMoreAndFewerRanksAreOfKinds) {
  const Topology topology = topology_of(pairs_on({0, 0, 0, 1, 2, 2, 2}), "found");
  EXPECT_EQ(topology.kinds.size(), 3u);
  EXPECT_EQ(topology.ranks(), 7);
  for (const int rank : {0, 2}) EXPECT_EQ(topology.host_of(rank), 0);
  EXPECT_EQ(topology.host_of(3), 1);
  EXPECT_EQ(topology.host_of(4), 2);
  EXPECT_DOUBLE_EQ(narrowest(topology, 1, 2), 10e9);
  EXPECT_DOUBLE_EQ(narrowest(topology, 3, 4), 2e9);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
}

TEST(MeasuredPairs, OfRanksRoundTheHostsAreNoCluster) {
  EXPECT_THROW(topology_of(pairs_on({0, 1, 0, 1}), "found"), Error);
  EXPECT_THROW(topology_of(MeasuredPairs(1, {}), "found"), Error);
}

}  // namespace
}  // namespace tutti::topology
