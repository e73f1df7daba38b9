// The simulator against closed forms where nothing contends, and against what sharing must come to where it does.
#include "schedule/readers/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/algorithms/lower_row.h"
#include "schedule/fold.h"
#include "schedule/readers/simulate/flows.h"
#include "topology/presets.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kAlpha = 2e-6, kBandwidth = 10e9;

// A switch that is never in the way: each rank has its own link to it.
topology::Topology crossbar(int ranks) {
  return topology::parse_topology("topology crossbar\ndevice node " + std::to_string(ranks) +
                                      "\nbridge switch 1\nlink node switch each 10 GB/s 1 us\n",
                                  "crossbar");
}

Offers ideal(std::uint64_t segment_bytes = 0) {
  Offers offers;
  offers.inside = {false, false, true, false, 64, 0};
  offers.segment_bytes = segment_bytes;
  return offers;
}

Simulated run(Verb verb, const char* name, int ranks, SimulateOptions options, const topology::Topology& topology,
              const Offers& offers = ideal(), int root = 0) {
  return simulate(lower_all(*find_algorithm(verb, name), ranks, offers, root), topology, options);
}
double seconds(Verb verb, const char* name, int ranks, std::uint64_t count, double reduced_bytes_per_s = 0) {
  SimulateOptions options;
  options.count = count;
  options.reduced_bytes_per_s = reduced_bytes_per_s;
  return run(verb, name, ranks, options, crossbar(ranks)).seconds;
}

// facts/collective-costs: n bytes in all, f = (p - 1) / p.
TEST(Simulate, ClosedFormsHoldWhereNothingContends) {
  constexpr double kReduce = 20e9;
  for (const int p : {2, 4, 8, 16, 64}) {
    const double lg = std::log2(p), f = (p - 1.0) / p, beta = 1 / kBandwidth, gamma = 1 / kReduce;
    for (const std::uint64_t elements : {std::uint64_t{64} * 64, std::uint64_t{1} << 20}) {
      const auto n = static_cast<double>(elements * 4);
      const std::uint64_t chunk = elements / static_cast<std::uint64_t>(p);
      SCOPED_TRACE(std::to_string(p) + " ranks, " + std::to_string(elements) + " elements");
      const auto expect = [](double simulated, double formula) { EXPECT_NEAR(simulated / formula, 1, 0.01); };
      expect(seconds(Verb::all_reduce, "ring", p, elements, kReduce),
             2 * (p - 1) * kAlpha + 2 * f * n * beta + f * n * gamma);
      expect(seconds(Verb::all_reduce, "recursive_doubling", p, elements, kReduce),
             lg * (kAlpha + n * beta + n * gamma));
      expect(seconds(Verb::all_reduce, "recursive_halving", p, elements, kReduce),
             2 * lg * kAlpha + 2 * f * n * beta + f * n * gamma);
      expect(seconds(Verb::broadcast, "binomial", p, elements), lg * (kAlpha + n * beta));
      expect(seconds(Verb::broadcast, "chain", p, elements), (p - 1) * (kAlpha + n * beta));
      expect(seconds(Verb::reduce, "binomial", p, elements, kReduce), lg * (kAlpha + n * beta + n * gamma));
      expect(seconds(Verb::all_gather, "ring", p, chunk), (p - 1) * kAlpha + f * n * beta);
      expect(seconds(Verb::all_gather, "bruck", p, chunk), lg * kAlpha + f * n * beta);
      expect(seconds(Verb::reduce_scatter, "ring", p, chunk, kReduce), (p - 1) * kAlpha + f * n * beta + f * n * gamma);
      expect(seconds(Verb::reduce_scatter, "recursive_halving", p, chunk, kReduce),
             lg * kAlpha + f * n * beta + f * n * gamma);
      expect(seconds(Verb::scatter, "binomial", p, chunk), lg * kAlpha + f * n * beta);
    }
  }
}

// Segments follow each other down a chain: (p - 2 + k)(alpha + n beta / k), but that the next one leaves while the one
// before is under way, so that alpha is paid once for each rank.
TEST(Simulate, SegmentsPipeline) {
  SimulateOptions options;
  options.count = 1 << 20;
  constexpr int kRanks = 8, kSegments = 16;
  const double n = 4.0 * (1 << 20);
  const Simulated simulated =
      run(Verb::broadcast, "chain", kRanks, options, crossbar(kRanks), ideal((4 << 20) / kSegments));
  EXPECT_NEAR(simulated.seconds, (kRanks - 1) * kAlpha + (kRanks - 2 + kSegments) * n / kSegments / kBandwidth,
              0.01 * simulated.seconds);
}

TEST(Flows, ThatShareALinkShareItFairly) {
  Flows flows(std::vector<double>{10, 6});
  // 0 is shared by a and b, 1 by b and c: b gets 3, then a takes the 7 that are left, and c 3.
  const std::vector<Flows::Share> first{{0}}, both{{0}, {1}}, second{{1}};
  const Flows::Id a = flows.begin(0, first, 70), b = flows.begin(0, both, 30), c = flows.begin(0, second, 60);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.rate_of(a), 7);
  EXPECT_DOUBLE_EQ(flows.rate_of(b), 3);
  EXPECT_DOUBLE_EQ(flows.rate_of(c), 3);
  EXPECT_DOUBLE_EQ(flows.next_end(), 10);
  Flows::Id ended = 0;
  EXPECT_TRUE(flows.take_ended(10, &ended) && flows.take_ended(10, &ended));  // a and b
  EXPECT_FALSE(flows.take_ended(10, &ended));
  flows.settle(10);
  EXPECT_DOUBLE_EQ(flows.rate_of(c), 6);
  EXPECT_DOUBLE_EQ(flows.next_end(), 15);
  EXPECT_TRUE(flows.take_ended(15, &ended));
  EXPECT_EQ(flows.next_end(), Flows::kNever);
}

TEST(Flows, ThatCannotUseTheirShareLeaveItToOthers) {
  Flows flows(std::vector<double>{10});
  const std::vector<Flows::Share> link{{0}};
  const Flows::Id slow = flows.begin(0, link, 100, 2), other = flows.begin(0, link, 100);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.rate_of(slow), 2);
  EXPECT_DOUBLE_EQ(flows.rate_of(other), 8);
}

// One that stands for three takes three shares of a link that all of them take.
TEST(Flows, CountByTheirWeights) {
  Flows flows(std::vector<double>{12});
  const std::vector<Flows::Share> three{{0, 3}}, one{{0}};
  const Flows::Id many = flows.begin(0, three, 6), single = flows.begin(0, one, 300);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.rate_of(many), 3);
  EXPECT_DOUBLE_EQ(flows.rate_of(single), 3);
  Flows::Id ended = 0;
  ASSERT_TRUE(flows.take_ended(2, &ended));
  flows.settle(2);
  EXPECT_DOUBLE_EQ(flows.rate_of(single), 12);
  EXPECT_DOUBLE_EQ(flows.uses()[0].bytes, 18);
}

// Flows at random, some of which end: a link carries at most what it can, and every flow has a link that is full, on
// which nobody has more than it, or as much as it can take. That is what max-min fair means.
TEST(Flows, AreMaxMinFairWhateverComes) {
  std::vector<double> capacities;
  for (int link = 0; link < 40; ++link) capacities.push_back(1 + link % 7);
  Flows flows(capacities);
  std::uint64_t state = 7;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state >> 33) % below);
  };
  std::map<Flows::Id, std::pair<std::vector<Flows::Share>, double>> there;  // ways, and what flows can take
  std::deque<std::vector<Flows::Share>> ways;
  double now = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Flows::Share>& way = ways.emplace_back();
    for (std::uint32_t link = random(9); link < 40; link += 1 + random(15)) way.push_back({link, 1 + random(2)});
    const double most = random(3) == 0 ? 0.5 : Flows::kNever;
    there[flows.begin(now, way, 1 + random(50), most)] = {way, most};
    flows.settle(now);
    const std::vector<Flows::LinkUse> uses = flows.uses();
    for (const Flows::LinkUse& use : uses) ASSERT_LE(use.load, use.capacity * (1 + 1e-9));
    std::vector<double> highest(40, 0);
    for (const auto& [flow, facts] : there) {
      for (const Flows::Share& share : facts.first)
        highest[share.link] = std::max(highest[share.link], flows.rate_of(flow));
    }
    for (const auto& [flow, facts] : there) {
      const double rate = flows.rate_of(flow);
      bool limited = rate >= facts.second * (1 - 1e-9);
      for (const Flows::Share& share : facts.first) {
        const bool full = uses[share.link].load >= capacities[share.link] * (1 - 1e-9);
        limited = limited || (full && rate >= highest[share.link] * (1 - 1e-9));
      }
      ASSERT_TRUE(limited) << "flow " << flow << " in round " << round;
    }
    if (round % 2 == 0) continue;
    now = flows.next_end();
    for (Flows::Id ended = 0; flows.take_ended(now, &ended);) there.erase(ended);
    flows.settle(now);
  }
}

// Eight hosts behind one uplink each: what all_to_all sends out of a host shares it.
TEST(Simulate, AnUplinkThatIsSharedSetsThePace) {
  const topology::Topology topology = topology::parse_topology(
      "topology uplinks\nhosts 4\ndevice node 4\nnic eth 1\nswitch top 1\nlink node eth each 100 GB/s 0 us\n"
      "link eth top each 10 GB/s 0 us\n",
      "uplinks");
  SimulateOptions options;
  options.count = 1 << 18;  // 1 MB for each of 16
  const Simulated simulated = run(Verb::all_to_all, "pairwise", 16, options, topology);
  const double out_of_a_host = 4.0 * 12 * (1 << 20);
  EXPECT_GE(simulated.seconds, out_of_a_host / 10e9);
  EXPECT_LE(simulated.seconds, 1.5 * out_of_a_host / 10e9);
  EXPECT_GT(simulated.links.front().utilisation, 0.7);
  EXPECT_LE(simulated.links.front().utilisation, 1 + 1e-9);
}

TEST(Simulate, AStragglerIsWaitedFor) {
  SimulateOptions options;
  options.count = 1 << 20;
  const double even = run(Verb::all_reduce, "ring", 8, options, crossbar(8)).seconds;
  options.stragglers = {{5, 2}};
  const Simulated slowed = run(Verb::all_reduce, "ring", 8, options, crossbar(8));
  EXPECT_NEAR(slowed.seconds / even, 2, 0.1);
  ASSERT_FALSE(slowed.waits.empty());
  options.stragglers = {{8, 2}};
  EXPECT_THROW(run(Verb::all_reduce, "ring", 8, options, crossbar(8)), Error);
}

TEST(Simulate, SkewIsDrawnFromItsSeed) {
  SimulateOptions options;
  options.count = 1000;
  options.skew_s = 1e-3;
  const auto time = [&](std::uint64_t seed) {
    options.seed = seed;
    return run(Verb::all_reduce, "recursive_doubling", 8, options, crossbar(8)).seconds;
  };
  EXPECT_EQ(time(1), time(1));
  EXPECT_NE(time(1), time(2));
  EXPECT_GT(time(1), 4e-4);
  EXPECT_LT(time(1), 1.1e-3);
}

// All message algorithms come to their end, over any number of ranks and several segments, on a real fabric.
TEST(Simulate, EveryAlgorithmOfMessagesEnds) {
  const topology::Topology cluster = topology::find_preset("dgx-h100:4");
  for (const Algorithm& row : algorithms()) {
    if (row.user_windows || row.scratch_windows || row.single_copy) continue;
    for (const int ranks : {2, 7, 32}) {
      if (row.verb == Verb::send_recv && ranks != 2) continue;
      SCOPED_TRACE(std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", " + std::to_string(ranks));
      SimulateOptions options;
      options.count = 100'003;
      const Simulated simulated = simulate(lower_all(row, ranks, ideal(64 << 10), ranks / 2), cluster, options);
      EXPECT_GT(simulated.seconds, 0);
      for (const Simulated::Link& link : simulated.links) EXPECT_LE(link.utilisation, 1 + 1e-9);
    }
  }
}

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
    for (int ranks = 2; ranks <= 33; ++ranks) alike = alike && fold_ranks(lower_all(row, ranks, ideal())).size() == 1;
    EXPECT_EQ(row.alike, alike) << name_of(row.verb) << " by " << row.name;
  }
}

TEST(Folding, OneProgramSaysItForAllWhereTheyAreAlike) {
  const Algorithm& row = *find_algorithm(Verb::all_to_all, "pairwise");
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

TEST(Simulate, ProgramsThatWaitForEachOtherAreRefused) {
  auto programs = lower_all(*find_algorithm(Verb::all_reduce, "ring"), 4, ideal());
  programs[2].program.lanes[0].steps.erase(programs[2].program.lanes[0].steps.begin());
  SimulateOptions options;
  options.count = 100;
  EXPECT_THROW(simulate(programs, crossbar(4), options), Error);
  EXPECT_THROW(simulate(lower_all(*find_algorithm(Verb::all_reduce, "ring"), 5, ideal()), crossbar(4), options), Error);
}

}  // namespace
}  // namespace tutti::schedule
