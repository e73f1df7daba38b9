// Buckets: caps, types, order, alignment of blocks and shards, parts of shards.
#include "strategy/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace tutti::strategy {
namespace {

using testing::ElementsAre;

std::vector<TensorSize> floats(std::initializer_list<std::size_t> elements) {
  std::vector<TensorSize> sizes;
  for (const std::size_t count : elements) sizes.push_back({count, DType::float32});
  return sizes;
}

TEST(Buckets, AreFilledInOrderUpToTheCap) {
  const auto sizes = floats({2048, 2048, 2048, 2048, 8192, 10});
  const BucketLayout layout = lay_out(sizes, reverse_order(6), {.first_bytes = 8192, .cap_bytes = 16384, .ranks = 2});
  ASSERT_EQ(layout.buckets.size(), 4U);
  EXPECT_THAT(layout.buckets[0].parameters, ElementsAre(5));  // the next would exceed the first bucket's cap
  EXPECT_THAT(layout.buckets[1].parameters, ElementsAre(4)) << "larger than the cap: by itself";
  EXPECT_THAT(layout.buckets[2].parameters, ElementsAre(3, 2));
  EXPECT_THAT(layout.buckets[3].parameters, ElementsAre(1, 0));
  EXPECT_EQ(layout.places[2], (BucketPlace{2, 2048}));
  EXPECT_EQ(layout.buckets[0].filled, 10U);
  EXPECT_EQ(layout.buckets[0].elements, 2 * kBlock);
}

TEST(Buckets, SmallParametersShareABlockAndAreNotCutByIts) {
  const auto sizes = floats({600, 400, 30, 1500, 24, 500});
  const BucketLayout layout = lay_out(sizes, std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {.ranks = 1});
  EXPECT_EQ(layout.places[1].offset, 600U);
  EXPECT_EQ(layout.places[2].offset, 1024U) << "1000 + 30 would cross a block";
  EXPECT_EQ(layout.places[3].offset, 2048U) << "larger than a block: at the next one";
  EXPECT_EQ(layout.places[4].offset, 3548U);
  EXPECT_EQ(layout.places[5].offset, 3572U);
  EXPECT_EQ(layout.buckets[0].filled, 4072U);
}

TEST(Buckets, HoldOneTypeAndComeInTheOrderInWhichTheyAreComplete) {
  const std::vector<TensorSize> sizes{{10, DType::float32}, {10, DType::bfloat16}, {10, DType::float32}};
  const BucketLayout layout = lay_out(sizes, std::vector<std::size_t>{0, 1, 2}, {});
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.buckets[0].type, DType::bfloat16) << "complete with parameter 1, the other only with 2";
  EXPECT_THAT(layout.buckets[1].parameters, ElementsAre(0, 2));
}

TEST(Buckets, OfUnitsHoldAUnitsParametersOfOneType) {
  const std::vector<TensorSize> sizes{
      {10, DType::float32}, {3000, DType::float32}, {20, DType::float32}, {10, DType::bfloat16}};
  const BucketLayout layout = lay_out_units(sizes, std::vector<std::size_t>{0, 1, 0, 0}, 2);
  ASSERT_EQ(layout.buckets.size(), 3U);
  EXPECT_THAT(layout.buckets[0].parameters, ElementsAre(1)) << "the last unit comes first";
  EXPECT_THAT(layout.buckets[1].parameters, ElementsAre(0, 2));
  EXPECT_THAT(layout.buckets[2].parameters, ElementsAre(3));
  EXPECT_EQ(layout.places[2], (BucketPlace{1, 10}));
  EXPECT_EQ(layout.buckets[0].elements, 4 * kBlock);
}

TEST(Buckets, OrdersAreCompleted) {
  EXPECT_THAT(reverse_order(3), ElementsAre(2, 1, 0));
  EXPECT_THAT(completed_order(std::vector<std::size_t>{1}, 4), ElementsAre(1, 3, 2, 0));
}

// Whatever the model: nothing overlaps, no shard cuts a block, and the parts of all shards are all elements once.
TEST(Buckets, OfAnyModelAreSound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    std::vector<TensorSize> sizes(1 + random() % 20);
    for (TensorSize& size : sizes)
      size = {random() % (random() % 2 == 0 ? 40 : 5000), random() % 3 == 0 ? DType::bfloat16 : DType::float32};
    const BucketLayout layout = lay_out(sizes, reverse_order(sizes.size()),
                                        {.first_bytes = 4096, .cap_bytes = 1U << (12 + random() % 6), .ranks = ranks});
    std::vector<std::size_t> seen(sizes.size());
    for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
      const Bucket& bucket = layout.buckets[b];
      ASSERT_EQ(bucket.elements % (kBlock * static_cast<std::size_t>(ranks)), 0U);
      std::size_t end = 0;
      for (const std::size_t parameter : bucket.parameters) {
        ASSERT_EQ(sizes[parameter].type, bucket.type);
        ASSERT_GE(layout.places[parameter].offset, end);
        end = layout.places[parameter].offset + sizes[parameter].elements;
      }
      ASSERT_EQ(end, bucket.filled);
      const std::size_t shard = bucket.shard(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const ShardPart& part : parts_of(layout, b, sizes, static_cast<std::size_t>(rank) * shard, shard)) {
          ASSERT_EQ(part.first % kBlock, 0U) << "a shard cuts a block";
          ASSERT_EQ(part.first, seen[part.parameter]);
          ASSERT_EQ(static_cast<std::size_t>(rank) * shard + part.offset,
                    layout.places[part.parameter].offset + part.first);
          seen[part.parameter] += part.count;
        }
      }
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(seen[i], sizes[i].elements);
  }
}

}  // namespace
}  // namespace tutti::strategy
