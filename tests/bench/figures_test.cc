// The table of figures: what is planned, and when a figure is met.
#include "tools/bench/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Row row_of(const std::string& impl, std::uint64_t count, double us) {
  Row row;
  row.impl = impl;
  row.cell.count = count;
  row.ranks = 2;
  row.transport = "shm";
  row.timing = timing_of({us});
  return row;
}

Figure all_reduces(double bound, double mean) {
  Figure figure;
  figure.where = "here";
  figure.verbs = {Verb::all_reduce};
  figure.bound = bound;
  figure.mean = mean;
  return figure;
}

TEST(BenchFigures, CoverWhatIsThereAndNothingElse) {
  const FigureSet small = figures_for(2, {"openmpi", "limit"}, "");
  EXPECT_THAT(small.plans[0].against, ElementsAre("openmpi", "limit"));
  for (const Figure& figure : small.figures) ASSERT_LT(figure.plan, small.plans.size()) << figure.where;
  const FigureSet large = figures_for(16, {"openmpi", "torch-gloo"}, "");
  std::vector<std::string> where;
  for (const Figure& figure : large.figures) where.push_back(figure.where);
  EXPECT_THAT(where, Contains("shm, 16 ranks, against torch-gloo"));
  for (const FigureSet* set : {&small, &large}) {
    for (const Plan& plan : set->plans) EXPECT_NO_THROW(check_plan(plan));
  }
}

TEST(BenchFigures, AreMedianOfRunsPerCell) {
  const auto run = [](double ours) { return std::vector<Row>{row_of("tutti", 1024, ours), row_of("mpich", 1024, 6)}; };
  const Finding finding = judge(all_reduces(0.95, 2), {run(1), run(2), run(6)});
  EXPECT_EQ(finding.cells, 1U);
  EXPECT_DOUBLE_EQ(finding.mean, 3);
  EXPECT_TRUE(finding.met());
  EXPECT_FALSE(judge(all_reduces(0.95, 4), {run(1), run(2), run(6)}).met());
  EXPECT_FALSE(judge(all_reduces(0.95, 2), {}).met()) << "nothing measured is nothing met";
}

TEST(BenchFigures, TinyCallsMayBeATenthOfAMicrosecondSlower) {
  Figure figure = all_reduces(0.95, 0.1);
  figure.tiny_us = 0.1;
  const auto found = [&](std::uint64_t count, double ours, double theirs) {
    return judge(figure, {{row_of("tutti", count, ours), row_of("mpich", count, theirs)}}).beyond;
  };
  EXPECT_EQ(found(2, 0.28, 0.20), 0);
  EXPECT_EQ(found(2, 0.32, 0.20), 1);
  EXPECT_EQ(found(128, 0.28, 0.20), 1) << "512 bytes are not tiny";
  figure.tiny_us = 0;
  EXPECT_EQ(found(2, 0.28, 0.20), 1) << "only where the figure allows it";
}

TEST(BenchFigures, TheLimitIsNotToBeExceeded) {
  Figure figure = all_reduces(0, 1.25);
  figure.kind = Figure::Kind::limit;
  const auto found = [&](double ours) {
    return judge(figure, {{row_of("tutti", 1024, ours), row_of("limit", 1024, 2)}});
  };
  EXPECT_TRUE(found(2.4).met());
  EXPECT_FALSE(found(2.6).met());
  EXPECT_THAT(figure_line(figure, found(2.6)), HasSubstr("MISSED"));
  EXPECT_THAT(figure_line(figure, {}), HasSubstr("nothing to compare with"));
}

TEST(BenchFigures, TunedIsShownBesideUntuned) {
  const std::vector<std::vector<Row>> runs{
      {row_of("tutti", 1024, 3), row_of("tutti-tuned", 1024, 2), row_of("mpich", 1024, 6)}};
  const Finding finding = judge(all_reduces(0.95, 2), runs);
  EXPECT_DOUBLE_EQ(finding.mean, 2) << "what everybody runs, and it is no peer of its own";
  EXPECT_DOUBLE_EQ(finding.tuned_mean, 3);
  EXPECT_THAT(figure_line(all_reduces(0.95, 2), finding), HasSubstr("2.00     3.00"));
}

TEST(BenchFigures, UntunedMayNotLoseMuchToTunedInAnyCell) {
  const FigureSet set = figures_for(2, {}, "costs.json");
  int groups = 0;
  for (const Figure& figure : set.figures) {
    if (figure.kind != Figure::Kind::tuned) continue;
    EXPECT_EQ(set.plans[figure.plan].tuned_costs, "costs.json");
    ++groups;
  }
  EXPECT_EQ(groups, 7) << "2, 4 and 8 ranks over shared memory and TCP, and 2 with symmetric buffers";
  Figure figure = all_reduces(1.25, 1.05);
  figure.kind = Figure::Kind::tuned;
  const auto found = [&](double first, double second) {
    return judge(figure, {{row_of("tutti", 1024, first), row_of("tutti-tuned", 1024, 1), row_of("tutti", 4096, second),
                           row_of("tutti-tuned", 4096, 1)}});
  };
  EXPECT_TRUE(found(1.2, 0.9).met());
  EXPECT_FALSE(found(1.2, 1.0).met()) << "the mean is 1.095";
  EXPECT_FALSE(found(1.3, 0.8).met()) << "one cell is 1.3";
  EXPECT_EQ(found(1.3, 0.8).beyond, 1);
}

TEST(BenchFigures, OnePeerCanBeSingledOut) {
  Figure figure = all_reduces(0, 1);
  figure.only_peer = "torch-gloo";
  const Finding finding =
      judge(figure, {{row_of("tutti", 1024, 1), row_of("openmpi", 1024, 2), row_of("torch-gloo", 1024, 50)}});
  EXPECT_DOUBLE_EQ(finding.mean, 50);
}

}  // namespace
}  // namespace tutti::bench
