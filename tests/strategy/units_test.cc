// Units of stage 3: what is gathered and dropped when, ahead and again, within the limit.
#include "strategy/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tutti/error.h"

namespace tutti::strategy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

UnitMove gather(std::size_t unit) { return {UnitMove::Kind::gather, unit}; }
UnitMove drop(std::size_t unit) { return {UnitMove::Kind::drop, unit}; }

// Forward over all units and backward in reverse, one at a time.
std::vector<UnitEvent> both_passes(std::size_t units) {
  std::vector<UnitEvent> events;
  const auto visit = [&](std::size_t unit) {
    events.push_back({unit, true});
    events.push_back({unit, false});
  };
  for (std::size_t unit = 0; unit < units; ++unit) visit(unit);
  for (std::size_t unit = units; unit-- > 0;) visit(unit);
  return events;
}

TEST(Units, GoAheadInTheOrderOfTheLastStep) {
  using Moves = std::vector<UnitMove>;
  UnitWindow window(3, 2);
  for (int step = 0; step < 2; ++step) {
    const bool first = step == 0;
    EXPECT_EQ(window.use(0), first ? Moves{gather(0)} : (Moves{gather(0), gather(1)}));
    window.done(0);
    EXPECT_EQ(window.use(1), first ? Moves{gather(1)} : (Moves{drop(0), gather(2)}));
    window.done(1);
    EXPECT_EQ(window.use(2), first ? (Moves{drop(0), gather(2)}) : Moves());
    window.done(2);
    EXPECT_THAT(window.use(2), IsEmpty()) << "still there";
    window.done(2);
    window.end_step();
  }
}

TEST(Units, OfAnEvaluationAreNotOfTheOrder) {
  UnitWindow window(3, 2);
  for (int step = 0; step < 2; ++step) {
    for (const std::size_t unit : {2, 1}) {
      window.use(unit);
      window.done(unit);
    }
    window.begin_pass();
    EXPECT_THAT(window.events(), IsEmpty());
    window.use(0);
    window.done(0);
    EXPECT_EQ(window.holds(2), step == 1) << "ahead in the second step only";
    window.use(2);
    window.done(2);
    window.end_step();
  }
}

TEST(Units, AreHeldWithinTheLimit) {
  UnitWindow window(3, 2);
  window.use(0);
  window.use(1);
  EXPECT_THROW(window.use(2), Error);
  window.done(0);
  EXPECT_THAT(window.use(2), ElementsAre(drop(0), gather(2)));
  EXPECT_THROW(window.done(0), Error);
  EXPECT_TRUE(window.in_use(1) && !window.holds(0));
}

TEST(Units, AnotherOrderThanExpectedStillWorks) {
  UnitWindow window(4, 2);
  for (const std::size_t unit : {0, 1, 2, 3}) {
    window.use(unit);
    window.done(unit);
  }
  window.end_step();
  EXPECT_THAT(window.use(2), ElementsAre(gather(2))) << "nothing goes ahead of what was not expected";
}

// Models have up to a hundred thousand layers: what is held is few of them.
TEST(Units, AreAsManyAsAModelHasLayers) {
  constexpr std::size_t kUnits = 100'000;
  std::size_t all = 0;
  for (const std::size_t gathers : gathers_of(both_passes(kUnits), kUnits, 3)) all += gathers;
  EXPECT_EQ(all, 2 * kUnits - 3);
}

TEST(Units, BothPassesGatherTwiceButForTheLast) {
  for (std::size_t units = 1; units <= 7; ++units) {
    for (std::size_t limit = 1; limit <= 8; ++limit) {
      std::size_t all = 0;
      for (const std::size_t gathers : gathers_of(both_passes(units), units, limit)) all += gathers;
      EXPECT_EQ(all, 2 * units - std::min(limit, units)) << units << " units, limit " << limit;
    }
  }
}

}  // namespace
}  // namespace tutti::strategy
