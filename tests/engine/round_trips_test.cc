#include "engine/round_trips.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::engine {
namespace {

// How many of these are enough, the last one again and again.
int needed(const std::vector<double>& microseconds) {
  RoundTrips trips;
  for (int count = 0;; ++count) {
    if (trips.enough()) return count;
    const auto at = std::min(static_cast<std::size_t>(count), microseconds.size() - 1);
    trips.add(std::chrono::duration<double, std::micro>(microseconds[at]));
  }
}

TEST(RoundTrips, FewOfLongOnesAndMoreOfShortOnes) {
  EXPECT_EQ(needed({50e3}), 8);
  EXPECT_EQ(needed({20}), 39);
  EXPECT_EQ(needed({500}), 16) << "8 ms";
}

// Of a core that others leave little by little.
TEST(RoundTrips, GoOnWhileTheyBecomeQuicker) {
  EXPECT_EQ(needed({9000, 6000, 4500, 4000, 3500, 3000, 2000, 1000, 20}), 9 + 7);
  EXPECT_EQ(needed({9000, 8900, 8800, 8700}), 8) << "not clearly";
}

TEST(RoundTrips, TheQuickestCounts) {
  RoundTrips trips;
  for (const double us : {900.0, 20.0, 22.0, 800.0}) trips.add(std::chrono::duration<double, std::micro>(us));
  EXPECT_DOUBLE_EQ(trips.quickest().count(), 20e-6);
}

}  // namespace
}  // namespace tutti::engine
