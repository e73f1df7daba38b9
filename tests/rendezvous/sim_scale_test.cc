// Large groups in a simulated network whose links take 1 ms: how soon everybody knows, and what it costs.
#include <gtest/gtest.h>

#include "rendezvous/overlay.h"
#include "rendezvous/sim_fleet.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kHop = milliseconds(1);
constexpr Time kAllKnow = milliseconds(50);  // after the first notice

class SimScale : public ::testing::TestWithParam<int> {
 protected:
  SimScale() : fleet_(static_cast<std::uint64_t>(GetParam()), {.size = GetParam()}) {
    fleet_.world.set_delay(kHop);
    fleet_.enter_everybody();
    fleet_.run_for(milliseconds(10));
    fleet_.take_traffic();
  }
  std::size_t neighbours() const { return neighbours_of(0, GetParam()).size(); }
  // When the last of the living has learnt of the failure, after the first.
  Time spread() {
    Time first = kNever, last{};
    for (const int rank : fleet_.living()) {
      first = std::min(first, fleet_.failed_at(rank, kEverybody));
      last = std::max(last, fleet_.failed_at(rank, kEverybody));
    }
    return last - first;
  }

  Fleet fleet_;
};

// Ten seconds of beats, which take a while to simulate.
class SimScaleSilence : public SimScale {};

TEST_P(SimScale, ADeathIsKnownToAllAndCostsAFramePerLinkAndDirection) {
  const int victim = GetParam() / 3;
  fleet_.kill(victim);
  fleet_.run_for(milliseconds(100));
  for (const int rank : fleet_.living()) {
    ASSERT_EQ(fleet_.watch(rank).failure(kEverybody)->rank, victim);
    ASSERT_TRUE(fleet_.watch(rank).failure(kEverybody)->died);
  }
  EXPECT_LE(spread(), kAllKnow);
  const auto [all, most] = fleet_.take_traffic();
  EXPECT_LE(most, neighbours());
  EXPECT_LE(all, neighbours() * static_cast<std::size_t>(GetParam() - 1));
  RecordProperty("known_to_all_us", static_cast<int>(spread() / std::chrono::microseconds(1)));
  RecordProperty("frames", static_cast<int>(all));
}

TEST_P(SimScale, AnAbortIsKnownToAll) {
  fleet_.watch(1).abort(kEverybody, 0, ErrorCode::timeout);
  fleet_.run_for(milliseconds(100));
  for (const int rank : fleet_.living()) ASSERT_EQ(fleet_.watch(rank).failure(kEverybody)->rank, 1);
  EXPECT_LE(fleet_.take_traffic().most, neighbours());
}

TEST_P(SimScaleSilence, AStoppedRankIsKnownToAllSoonAfterItsNeighboursGiveItUp) {
  const int victim = GetParam() / 2 + 1;
  fleet_.world.freeze(victim);
  const Time stopped = fleet_.world.now();
  fleet_.run_for(seconds(12));
  fleet_.kill(victim);
  EXPECT_LE(spread(), kAllKnow);
  for (const int rank : fleet_.living()) {
    ASSERT_EQ(fleet_.watch(rank).failure(kEverybody)->loss, Loss::silent);
    ASSERT_LE(fleet_.failed_at(rank, kEverybody), stopped + fleet_.options.silence + kAllKnow);
  }
}

TEST_P(SimScale, BeatsGoToNeighboursAloneFourTimesASecond) {
  const Time duration = GetParam() > 1024 ? milliseconds(500) : seconds(2);
  fleet_.run_for(duration);
  const auto [all, most] = fleet_.take_traffic();
  const std::size_t beats = static_cast<std::size_t>(duration / kBeatEvery);
  EXPECT_EQ(most, beats * neighbours());
  EXPECT_EQ(all, beats * neighbours() * static_cast<std::size_t>(GetParam()));
}

TEST_P(SimScale, AStatementReachesEverybodyForAFramePerLinkAndDirection) {
  fleet_.watch(2).announce(kEverybody, 3, {7, 8, 9});
  fleet_.run_for(milliseconds(50));
  for (const int rank : fleet_.living())
    ASSERT_EQ(fleet_.watch(rank).announced(kEverybody, 2).at(3), (Statement{7, 8, 9}));
  EXPECT_LE(fleet_.take_traffic().most, neighbours());
  fleet_.watch(2).announce(kEverybody, 3, {7, 8, 9});
  EXPECT_EQ(fleet_.take_traffic().all, 0u) << "all know that already";
}

INSTANTIATE_TEST_SUITE_P(Ranks, SimScaleSilence, ::testing::Values(64, 256), ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Ranks, SimScale, ::testing::Values(64, 256, 1024, 4096), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::rendezvous
