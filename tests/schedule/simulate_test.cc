// The simulator against closed forms where nothing contends, and against what sharing must come to where it does.
#include "schedule/readers/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "schedule/algorithms/lower_row.h"
#include "schedule/simulated_clusters.h"
#include "topology/presets.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

double seconds(Verb verb, const char* name, int ranks, std::uint64_t count, double reduced_bytes_per_s = 0) {
  SimulateOptions options;
  options.count = count;
  options.reduced_bytes_per_s = reduced_bytes_per_s;
  options.fold = false;
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
      const double rounds = std::ceil(lg / 2);  // of radix 4
      expect(seconds(Verb::scatter, "knomial", p, chunk), rounds * kAlpha + f * n * beta);
      expect(seconds(Verb::gather, "knomial", p, chunk), rounds * kAlpha + f * n * beta);
      expect(seconds(Verb::all_gather, "recursive_multiplying", p, chunk), rounds * kAlpha + f * n * beta);
      expect(seconds(Verb::scatter, "binomial", p, chunk), lg * kAlpha + f * n * beta);
      expect(seconds(Verb::gather, "binomial", p, chunk), lg * kAlpha + f * n * beta);
      expect(seconds(Verb::all_to_all, "bruck", p, chunk), lg * (kAlpha + n / 2 * beta));
      expect(seconds(Verb::reduce, "recursive_halving", p, elements, kReduce),
             2 * lg * kAlpha + 2 * f * n * beta + f * n * gamma);
      // The ring begins where the scatter has come to, so that the rounds of the scatter cost nothing extra.
      if (p > 2)
        expect(seconds(Verb::broadcast, "scatter_all_gather", p, elements), (p - 1) * kAlpha + 2 * f * n * beta);
    }
  }
}

// Rings along the a rows and b columns of a grid: the bytes of one ring, in a + b - 2 steps.
TEST(Simulate, ATorusIsAsLongAsItsSides) {
  constexpr double kReduce = 20e9, kBeta = 1 / kBandwidth, kGamma = 1 / kReduce;
  for (const int p : {4, 12, 15, 16, 30, 64}) {
    const int rows = rows_of_grid(p), columns = p / rows;
    const double f = (p - 1.0) / p, steps = rows + columns - 2;
    const auto chunk = std::uint64_t{1} << 14, elements = chunk * static_cast<std::uint64_t>(p);
    const auto n = static_cast<double>(elements * 4);
    SCOPED_TRACE(p);
    EXPECT_NEAR(seconds(Verb::all_gather, "torus", p, chunk) / (steps * kAlpha + f * n * kBeta), 1, 0.01);
    EXPECT_NEAR(seconds(Verb::reduce_scatter, "torus", p, chunk, kReduce) / (steps * kAlpha + f * n * (kBeta + kGamma)),
                1, 0.01);
    EXPECT_NEAR(
        seconds(Verb::all_reduce, "torus", p, elements, kReduce) / (2 * steps * kAlpha + f * n * (2 * kBeta + kGamma)),
        1, 0.01);
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

// Two trees, lg p up and lg p down: short vectors pay for nothing else, and for long ones a rank sends each byte twice,
// up and on to its children, whatever the number of ranks. One tree has its ranks send it three times.
TEST(Simulate, ADoubleBinaryTreeIsShortAndBusy) {
  for (const int ranks : {4, 8, 15, 16, 63, 64}) {
    SCOPED_TRACE(ranks);
    const double depth = std::floor(std::log2(ranks));
    EXPECT_NEAR(seconds(Verb::all_reduce, "double_binary_tree", ranks, 2) / (2 * depth * kAlpha), 1, 0.01);
    SimulateOptions options;
    options.count = 4 << 20;
    const double once = 16.0 * (1 << 20) / kBandwidth;
    const auto trees = [&](const char* name) {
      return run(Verb::all_reduce, name, ranks, options, crossbar(ranks), ideal(64 << 10)).seconds;
    };
    EXPECT_LT(trees("double_binary_tree"), 2.6 * once);
    if (ranks > 4) {
      EXPECT_GT(trees("binary_tree"), 2.9 * once);
    }
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
  const Simulated simulated = run(Verb::all_to_all, "spread_out", 16, options, topology);
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
      if ((row.verb == Verb::send_recv && ranks != 2) || !fits(row, ranks)) continue;
      SCOPED_TRACE(std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", " + std::to_string(ranks));
      SimulateOptions options;
      options.count = 100'003;
      const Simulated simulated = simulate(lower_all(row, ranks, ideal(64 << 10), ranks / 2), cluster, options);
      EXPECT_GT(simulated.seconds, 0);
      for (const Simulated::Link& link : simulated.links) EXPECT_LE(link.utilisation, 1 + 1e-9);
    }
  }
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
