// The line about how training goes: what it says where much, little or nothing is known.
#include "tutti/train/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tutti::train {
namespace {

TEST(ProgressTest, SaysAllThatIsKnown) {
  Metrics metrics({{"loss"}, {"norm"}, {"seldom"}});
  metrics.add("loss", 0.35012);
  metrics.add("norm", NAN);
  const Progress progress{.step = 120, .total_steps = 1000, .seconds = 12, .examples = 21600, .learning_rate = 3e-4};
  EXPECT_EQ(
      to_text(progress, metrics.own()),
      "step 120 of 1000, 12 % | loss 0.3501 | norm not finite 1x | 0.0003 rate | 1.8k examples/s | 1 m 28 s left");
}

TEST(ProgressTest, LeavesOutWhatIsNot) {
  EXPECT_EQ(to_text({.step = 7}), "step 7");
  EXPECT_EQ(to_text({.step = 0, .total_steps = 10, .seconds = 1}), "step 0 of 10, 0 %");
  EXPECT_EQ(to_text({.step = 10, .total_steps = 10, .seconds = 1}), "step 10 of 10, 100 %");
  EXPECT_EQ(to_text({.step = 999, .total_steps = 1000}), "step 999 of 1000, 99 %");  // done is what is done
}

TEST(ProgressTest, ARunThatWasResumedCountsItsOwnSteps) {
  EXPECT_EQ(to_text({.step = 600, .total_steps = 1000, .first_step = 500, .seconds = 50}),
            "step 600 of 1000, 60 % | 3 m 20 s left");
}

TEST(ProgressTest, UnitsOfTimesAndRates) {
  const auto left = [](double seconds) {
    return to_text({.step = 1, .total_steps = 2, .seconds = seconds})
        .substr(std::string("step 1 of 2, 50 % | ").size());
  };
  EXPECT_EQ(left(0.2), "1 s left");
  EXPECT_EQ(left(59), "59 s left");
  EXPECT_EQ(left(3599), "59 m 59 s left");
  EXPECT_EQ(left(7260), "2 h 1 m left");
  EXPECT_EQ(left(180000), "2 d 2 h left");
  const auto rate = [](double examples) {
    return to_text({.seconds = 1, .examples = examples}).substr(std::string("step 0 | ").size());
  };
  EXPECT_EQ(rate(850), "850 examples/s");
  EXPECT_EQ(rate(999.7), "1.0k examples/s");
  EXPECT_EQ(rate(23456), "23k examples/s");
  EXPECT_EQ(rate(2.3e6), "2.3M examples/s");
}

}  // namespace
}  // namespace tutti::train
