// Metrics over ranks against the same numbers in one place, in one call, the same bits on all ranks and every time.
#include "tutti/train/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace tutti::train {
namespace {

using tutti::testing::error_of;
using tutti::testing::expect_all_ok;
using tutti::testing::Ranks;
using tutti::testing::require;
using tutti::testing::run_ranks;

// Far from zero, so that a sum of squares would lose the variance. Ranks have different many.
std::vector<double> values_of(int rank) {
  std::mt19937_64 random(static_cast<unsigned>(rank));
  std::vector<double> values(static_cast<std::size_t>(100 * rank));
  for (double& value : values) value = 1e6 + static_cast<double>(random() % 1000) / 1000;
  return values;
}

Metrics metrics_of(int rank) {
  Metrics metrics({{"loss", Bins{.low = 1e6, .high = 1e6 + 1, .count = 7}}, {"seldom"}});
  for (const double value : values_of(rank)) metrics.add("loss", value);
  if (rank == 1) metrics.add("seldom", -3);
  return metrics;
}

void expect_same_bits(const Metric& a, const Metric& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.squares, b.squares);
  EXPECT_EQ(a.minimum, b.minimum);
  EXPECT_EQ(a.maximum, b.maximum);
  EXPECT_EQ(a.not_finite, b.not_finite);
  EXPECT_EQ(a.histogram, b.histogram);
}

class MetricsTest : public ::testing::TestWithParam<int> {};

TEST_P(MetricsTest, AreThoseOfAllValuesInOnePlace) {
  const int ranks = GetParam();
  std::vector<double> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<double> own = values_of(rank);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::mutex mutex;
  std::vector<std::vector<Metric>> results;
  for (int again = 0; again < 2; ++again) {
    expect_all_ok(run_ranks(Ranks::threads, ranks, [&](Communicator& comm) {
      const Metrics metrics = metrics_of(comm.rank());
      const std::uint64_t before = comm.counters()[Verb::all_reduce].calls;
      const std::vector<Metric> result = metrics.reduce(comm);
      const std::uint64_t calls = comm.counters()[Verb::all_reduce].calls - before;
      const std::lock_guard lock(mutex);
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(metrics.own()[0].count, values_of(comm.rank()).size());
      results.push_back(result);
    }));
  }
  for (const auto& result : results) {
    ASSERT_EQ(result.size(), 2);
    for (std::size_t i = 0; i < 2; ++i) expect_same_bits(result[i], results[0][i]);
  }
  const Metric& loss = results[0][0];
  ASSERT_EQ(loss.count, all.size());
  EXPECT_EQ(results[0][1].count, ranks > 1 ? 1 : 0);
  if (all.empty()) return;
  double mean = 0, squares = 0;
  for (const double value : all) mean += (value - 1e6) / static_cast<double>(all.size());
  std::vector<std::uint64_t> histogram(7);
  for (const double value : all) {
    squares += (value - 1e6 - mean) * (value - 1e6 - mean);
    ++histogram[static_cast<std::size_t>((value - 1e6) * 7)];
  }
  EXPECT_NEAR(loss.mean - 1e6, mean, 1e-9);
  EXPECT_NEAR(loss.variance(), squares / static_cast<double>(all.size()), 1e-8);
  EXPECT_NEAR(loss.sample_variance(), squares / static_cast<double>(all.size() - 1), 1e-8);
  EXPECT_EQ(loss.minimum, *std::min_element(all.begin(), all.end()));
  EXPECT_EQ(loss.maximum, *std::max_element(all.begin(), all.end()));
  EXPECT_EQ(loss.histogram, histogram);
  EXPECT_EQ(results[0][1].mean, -3);
}

INSTANTIATE_TEST_SUITE_P(Ranks, MetricsTest, ::testing::Values(1, 2, 3, 5, 8));

// Values 0, 1 and 2 of three ranks, whatever lies between them.
TEST(MetricsOverTest, ProcessesAndTcp) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp}) {
    expect_all_ok(run_ranks(kind, 3, [](Communicator& comm) {
      Metrics metrics({{"rank", Bins{.low = 0, .high = 3, .count = 3}}});
      metrics.add("rank", comm.rank());
      const Metric rank = metrics.reduce(comm)[0];
      require(rank.count == 3 && rank.mean == 1 && rank.squares == 2, to_text(rank));
      require(rank.minimum == 0 && rank.maximum == 2, to_text(rank));
      require(rank.histogram == std::vector<std::uint64_t>{1, 1, 1}, "the histogram");
    }));
  }
}

TEST(MetricsOfOneTest, ValuesThatStandForSeveral) {
  Metrics metrics({{"loss"}});
  metrics.add("loss", 2, 3);
  metrics.add("loss", 6);
  const Metric& loss = metrics.own()[0];
  EXPECT_EQ(loss.count, 4);
  EXPECT_DOUBLE_EQ(loss.mean, 3);
  EXPECT_DOUBLE_EQ(loss.sum(), 12);
  EXPECT_DOUBLE_EQ(loss.variance(), 3);
  EXPECT_DOUBLE_EQ(loss.sample_variance(), 4);
  metrics.clear();
  EXPECT_EQ(metrics.own()[0].count, 0);
  EXPECT_EQ(to_text(metrics.own()[0]), "loss no values");
}

TEST(MetricsOfOneTest, WhatIsNotFiniteHidesNothing) {
  Metrics metrics({{"loss", Bins{.low = 0, .high = 4, .count = 4}}});
  for (const double value : std::vector<double>{NAN, 1, INFINITY, 3, -INFINITY}) metrics.add("loss", value);
  const Metric& loss = metrics.own()[0];
  EXPECT_EQ(loss.not_finite, 3);
  EXPECT_EQ(loss.mean, 2);
  EXPECT_EQ(loss.histogram, (std::vector<std::uint64_t>{0, 1, 0, 1}));
  EXPECT_EQ(to_text(loss), "loss 2 ± 1, 1 to 3, 2 values, 3 not finite");
}

TEST(MetricsOfOneTest, ValuesBeyondTheBinsAreInTheOuterOnes) {
  Metrics metrics({{"x", Bins{.low = -1, .high = 1, .count = 2}}});
  for (const double value : {-100.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1e300}) metrics.add("x", value);
  EXPECT_EQ(metrics.own()[0].histogram, (std::vector<std::uint64_t>{3, 4}));
}

TEST(MetricsOfOneTest, BadInputGetsASentence) {
  const auto expect = [](auto call, const char* part) {
    const std::string text = error_of(call).what();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect([] { Metrics metrics({}); }, "there is none");
  expect([] { Metrics metrics({{"loss"}, {"loss"}}); }, "two are named \"loss\"");
  expect([] { Metrics metrics({{"loss", Bins{.low = 1, .high = 1}}}); }, "from a lower to a higher number");
  Metrics metrics({{"loss"}, {"accuracy"}});
  expect([&] { metrics.add("los", 1); }, "none is named \"los\"; there are \"loss\", \"accuracy\"");
}

// Seven bins and eight take as many cells.
TEST(MetricsOfOneTest, RanksWithOtherMetricsAreTold) {
  const auto bins = [](double high, std::size_t count) {
    return Metric{"loss", Bins{.low = 0, .high = high, .count = count}};
  };
  for (const Metric& other : {Metric{"accuracy"}, bins(2, 7), bins(1, 8)}) {
    const Metric first = other.bins ? bins(1, 7) : Metric{"loss"};
    const auto ends = run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
      const Metrics metrics({comm.rank() == 0 ? first : other});
      (void)metrics.reduce(comm);
    });
    const bool told = std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) {
      return end.message.find("ranks reduce different metrics") != std::string::npos;
    });
    EXPECT_TRUE(told) << ends[0].message << "; " << ends[1].message;
    EXPECT_FALSE(ends[0].ok());
    EXPECT_FALSE(ends[1].ok());
  }
}

}  // namespace
}  // namespace tutti::train
