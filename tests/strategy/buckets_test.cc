// Buckets: caps, types, order, alignment of blocks and shards, parts of shards, and the cap that costs least.
#include "strategy/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "strategy/timeline.h"

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

TEST(Buckets, TheCapIsWhereLatencyAndTheLastBucketBalance) {
  constexpr double kLatency = 100, kPerByte = 1e-4;
  const auto price = [&](std::size_t bytes) { return kLatency + kPerByte * static_cast<double>(bytes); };
  // The least of (M / c + 1)(a + bc) is at sqrt(Ma / b): 8 MB for 64 MB.
  EXPECT_EQ(cheapest_cap(64 << 20, price), 8U << 20);
  EXPECT_EQ(cheapest_cap(64 << 20, [](std::size_t) { return 100.0; }), 64U << 20) << "latency alone: one bucket";
  EXPECT_EQ(cheapest_cap(64 << 20, [](std::size_t bytes) { return static_cast<double>(bytes); }), 1U << 20);
  EXPECT_EQ(cheapest_cap(42 << 20, [](std::size_t bytes) { return 20 + static_cast<double>(bytes) / 100; }), 1U << 20)
      << "all in one bucket: nothing hides it either";
  EXPECT_EQ(cheapest_cap(1000, price), 1U << 20) << "a small model has one bucket anyway";
}

// What a step shows of the buckets of a cap, played one by one.
double exposed_by(std::size_t cap, std::size_t bytes, double backward_us, double latency_us, double us_per_byte) {
  std::vector<PricedBucket> buckets;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t size = std::min(cap, bytes - done);
    done += size;
    buckets.push_back({size, 1, backward_us * static_cast<double>(done) / static_cast<double>(bytes),
                       latency_us + us_per_byte * static_cast<double>(size)});
  }
  return play_buckets(buckets, backward_us).back().end_us - backward_us;
}

TEST(Buckets, TheCapExposesLeastBehindABackwardPassThatIsKnown) {
  constexpr std::size_t kBytes = 100 << 20;
  for (const double latency_us : {1.0, 50.0, 2000.0}) {
    for (const double gigabytes_per_s : {0.1, 1.0, 20.0}) {
      for (const double backward_us : {1e3, 3e4, 1e6}) {
        const double us_per_byte = 1e-3 / gigabytes_per_s;
        const auto price = [&](std::size_t bytes) { return latency_us + us_per_byte * static_cast<double>(bytes); };
        const std::size_t chosen = cheapest_cap(kBytes, price, backward_us);
        const double exposed = exposed_by(chosen, kBytes, backward_us, latency_us, us_per_byte);
        for (std::size_t cap = 1 << 20; cap <= 64 << 20; cap *= 2)
          EXPECT_LE(exposed, exposed_by(cap, kBytes, backward_us, latency_us, us_per_byte) * 1.0001)
              << cap << " instead of " << chosen << ": " << latency_us << " us, " << gigabytes_per_s << " GB/s, "
              << backward_us << " us";
      }
    }
  }
}

}  // namespace
}  // namespace tutti::strategy
