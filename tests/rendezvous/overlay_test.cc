// The graph of neighbours: how many there are, how far it is, and what it takes to part it.
#include "rendezvous/overlay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

namespace tutti::rendezvous {
namespace {

// How many hops it is from place 0 to the furthest; all places are alike.
int longest_way(int places) {
  std::vector<int> hops(static_cast<std::size_t>(places), -1);
  std::deque<int> queue{0};
  hops[0] = 0;
  int longest = 0;
  while (!queue.empty()) {
    const int place = queue.front();
    queue.pop_front();
    longest = hops[static_cast<std::size_t>(place)];
    for (const int next : neighbours_of(place, places)) {
      if (hops[static_cast<std::size_t>(next)] >= 0) continue;
      hops[static_cast<std::size_t>(next)] = longest + 1;
      queue.push_back(next);
    }
  }
  return longest;
}

// How many ways from place 0 to another share no place in between (Menger): that many must go to part the two. Each
// place is an entrance and an exit, joined by a way for one; each round finds one more way from exit to entrance.
class Ways {
 public:
  explicit Ways(int places) : places_(places), left_(static_cast<std::size_t>(2 * places)) {
    for (int place = 0; place < places; ++place) {
      left_[in(place)].push_back(out(place));
      for (const int next : neighbours_of(place, places)) left_[out(place)].push_back(static_cast<int>(in(next)));
    }
  }
  int count(int to) {
    int ways = 0;
    while (find_one(to)) ++ways;
    return ways;
  }

 private:
  static std::size_t in(int place) { return static_cast<std::size_t>(2 * place); }
  static int out(int place) { return 2 * place + 1; }

  bool find_one(int to) {
    std::vector<int> before(static_cast<std::size_t>(2 * places_), -1);
    std::deque<int> queue{out(0)};
    while (!queue.empty() && before[in(to)] < 0) {
      const int at = queue.front();
      queue.pop_front();
      for (const int next : left_[static_cast<std::size_t>(at)]) {
        if (next == out(0) || before[static_cast<std::size_t>(next)] >= 0) continue;
        before[static_cast<std::size_t>(next)] = at;
        queue.push_back(next);
      }
    }
    if (before[in(to)] < 0) return false;
    for (int at = static_cast<int>(in(to)); at != out(0);) {
      const int from = before[static_cast<std::size_t>(at)];
      auto& taken = left_[static_cast<std::size_t>(from)];
      taken.erase(std::find(taken.begin(), taken.end(), at));
      left_[static_cast<std::size_t>(at)].push_back(from);
      at = from;
    }
    return true;
  }

  int places_;
  std::vector<std::vector<int>> left_;
};

TEST(Overlay, NeighboursAreAtPowersOfTwo) {
  EXPECT_EQ(neighbours_of(0, 16), (std::vector<int>{1, 2, 4, 8, 12, 14, 15}));
  EXPECT_EQ(neighbours_of(5, 6), (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(neighbours_of(1, 2), (std::vector<int>{0}));
  EXPECT_EQ(neighbours_of(0, 1), (std::vector<int>{}));
}

TEST(Overlay, EachIsANeighbourOfItsNeighbours) {
  for (int places = 1; places <= 70; ++places) {
    for (int place = 0; place < places; ++place) {
      for (const int other : neighbours_of(place, places)) {
        const auto theirs = neighbours_of(other, places);
        ASSERT_TRUE(std::binary_search(theirs.begin(), theirs.end(), place))
            << places << ": " << place << ", " << other;
      }
    }
  }
}

TEST(Overlay, TheWayIsHalfTheLogarithm) {
  for (const int places : {16, 33, 64, 100, 127, 256, 1000, 1024, 4095, 4096}) {
    const double logarithm = std::log2(places);
    EXPECT_LE(longest_way(places), std::ceil(logarithm / 2) + 1) << places;
    EXPECT_LE(neighbours_of(0, places).size(), static_cast<std::size_t>(2 * std::floor(logarithm))) << places;
  }
  EXPECT_EQ(longest_way(64), 3);
  EXPECT_EQ(longest_way(4096), 6);
}

TEST(Overlay, OnlyTheLossOfAsManyAsItHasNeighboursCutsAPlaceOff) {
  for (int places = 2; places <= 80; ++places) {
    const auto neighbours = neighbours_of(0, places);
    for (int to = 1; to < places; ++to) {
      if (std::binary_search(neighbours.begin(), neighbours.end(), to)) continue;
      ASSERT_EQ(Ways(places).count(to), static_cast<int>(neighbours.size())) << places << ", to " << to;
    }
  }
}

}  // namespace
}  // namespace tutti::rendezvous
