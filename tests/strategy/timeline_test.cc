// Timelines: played by the rule of buckets, what is exposed and busy, and how they are told.
#include "strategy/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::strategy {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ready at 10, 20 and 100; backward ends at 100; each takes 30.
std::vector<train::BucketTimes> played() {
  const PricedBucket buckets[] = {{1024, 2, 10, 30}, {2048, 1, 20, 30}, {4096, 1, 100, 30}};
  return play_buckets(buckets, 100);
}

TEST(Timeline, BucketsWaitForTheOneBefore) {
  const auto timeline = played();
  ASSERT_EQ(timeline.size(), 3U);
  EXPECT_EQ(timeline[0], (train::BucketTimes{1024, 2, 10, 10, 40, 0}));
  EXPECT_EQ(timeline[1], (train::BucketTimes{2048, 1, 20, 40, 70, 0}));
  EXPECT_EQ(timeline[2], (train::BucketTimes{4096, 1, 100, 100, 130, 30}));
  EXPECT_EQ(busy_us(timeline), 90);
}

TEST(Timeline, WhatOverlapsIsBusyOnce) {
  const train::BucketTimes both[] = {{0, 1, 0, 50, 60, 0}, {0, 1, 0, 0, 20, 0}, {0, 1, 0, 10, 15, 0}};
  EXPECT_EQ(busy_us(both), 30);
}

TEST(Timeline, OnlyWhatLiesBehindTheComputationIsExposed) {
  EXPECT_EQ(exposed_us(10, 20, 30), 0);
  EXPECT_EQ(exposed_us(10, 40, 30), 10);
  EXPECT_EQ(exposed_us(50, 60, 30), 10);
}

TEST(Timeline, IsToldInTables) {
  EXPECT_THAT(table_of(played()),
              HasSubstr("       2           1      4.0 KB      0.100      0.100      0.130       0.030\n"));
  EXPECT_EQ(bytes_in_words(1023), "1023 B");
  EXPECT_EQ(bytes_in_words(3 << 20), "3.0 MB");
}

TEST(Timeline, IsDrawnWithWhatIsExposedInAnotherColour) {
  const auto timeline = played();
  const std::string svg = svg_of(timeline, 100);
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("bucket 2, 4.0 KB: ready 0.100, start 0.100, end 0.130, exposed 0.030 ms"));
  EXPECT_THAT(svg, HasSubstr("#d95f02"));
  EXPECT_THAT(svg_of(std::span(timeline).first(2), 100), Not(HasSubstr("#d95f02")));
}

}  // namespace
}  // namespace tutti::strategy
