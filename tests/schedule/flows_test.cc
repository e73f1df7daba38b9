// Fair sharing of links, against what the words mean.
#include "schedule/readers/simulate/flows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tutti::schedule {
namespace {

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
  EXPECT_DOUBLE_EQ(flows.uses(2)[0].bytes, 24) << "18 of the one that has ended, 6 of the one that goes on";
  EXPECT_DOUBLE_EQ(flows.uses(3)[0].bytes, 36);
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
    const std::vector<Flows::LinkUse> uses = flows.uses(now);
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

}  // namespace
}  // namespace tutti::schedule
