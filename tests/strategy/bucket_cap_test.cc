// The cap of a bucket: which layout exposes least, by prices of latency and bandwidth.
#include "strategy/bucket_cap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::strategy {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

std::vector<TensorSize> megabytes(std::vector<std::size_t> sizes) {
  std::vector<TensorSize> tensors;
  for (const std::size_t each : sizes) tensors.push_back({.elements = each * kMegabyte / sizeof(float)});
  return tensors;
}

BucketPrice price_of(double latency_us, double us_per_byte) {
  return [=](const Bucket& bucket) { return latency_us + us_per_byte * static_cast<double>(bucket.filled_bytes()); };
}

TEST(BucketCap, IsWhereLatencyAndTheFirstBucketBalance) {
  const std::vector<TensorSize> pieces = megabytes(std::vector<std::size_t>(65, 1));  // the first alone, and 64
  // The least of M / c a + bc is at sqrt(Ma / b): 8 MB for 64 MB.
  EXPECT_EQ(cheapest_cap(pieces, 1, price_of(100, 1e-4)), 8U << 20);
  EXPECT_EQ(cheapest_cap(pieces, 1, price_of(100, 0)), 64U << 20) << "latency alone: as few as there can be";
  EXPECT_EQ(cheapest_cap(pieces, 1, price_of(0, 1)), 1U << 20);
  EXPECT_EQ(cheapest_cap(megabytes({0}), 1, price_of(100, 1e-4)), 1U << 20) << "a small model has one bucket anyway";
  EXPECT_EQ(cheapest_cap({}, 1, price_of(100, 1e-4)), 1U << 20);
}

// Where the last bucket happens to be small, all the others are not to wait in one for that.
TEST(BucketCap, OverlapsWhateverTheLastBucketIs) {
  const std::vector<TensorSize> sizes = megabytes(std::vector<std::size_t>(10, 4));  // 8, 16 and 32 MB leave one
  EXPECT_LE(cheapest_cap(sizes, 1, price_of(20, 8e-3)), 4U << 20);
}

// Layers of a few large matrices and an embedding: what is above the cap is a bucket by itself, whatever the cap.
TEST(BucketCap, ExposesLeastOfTheLayoutsThatThereAre) {
  std::vector<std::size_t> of_layers{400};
  for (int layer = 0; layer < 24; ++layer)
    for (const std::size_t each : {24, 8, 96, 32}) of_layers.push_back(each);
  for (const std::vector<TensorSize>& sizes : {megabytes(of_layers), megabytes(std::vector<std::size_t>(100, 1))}) {
    const std::vector<std::size_t> order = reverse_order(sizes.size());
    for (const double latency_us : {1.0, 50.0, 2000.0, 40000.0}) {
      for (const double gigabytes_per_s : {0.1, 1.0, 20.0, 300.0}) {
        for (const double backward_us : {0.0, 1e3, 3e4, 1e6}) {
          const BucketPrice price = price_of(latency_us, 1e-3 / gigabytes_per_s);
          const auto exposed = [&](const BucketLayout& layout) { return exposed_us(layout, price, backward_us); };
          const auto exposed_by = [&](std::size_t cap) { return exposed(lay_out(sizes, order, {.cap_bytes = cap})); };
          const std::size_t chosen = cheapest_cap(sizes, order, 1, exposed);
          for (std::size_t cap = 1 << 20; cap <= 512 << 20; cap *= 2)
            EXPECT_LE(exposed_by(chosen), exposed_by(cap) * 1.000001)
                << cap << " instead of " << chosen << ": " << latency_us << " us, " << gigabytes_per_s << " GB/s, "
                << backward_us << " us";
        }
      }
    }
  }
}

TEST(BucketCap, OfLayoutsThatAreAlikeHasTheFewestBuckets) {
  const std::vector<TensorSize> sizes = megabytes(std::vector<std::size_t>(64, 1));
  const std::vector<std::size_t> order = reverse_order(sizes.size());
  EXPECT_EQ(cheapest_cap(sizes, order, 1, [](const BucketLayout&) { return 0.0; }), 64U << 20);
  const auto rounded = [](const BucketLayout& layout) {
    return 1 + 1e-13 * static_cast<double>(layout.buckets.size() == 2 ? 1 : 0);
  };
  EXPECT_EQ(cheapest_cap(sizes, order, 1, rounded), 64U << 20) << "two that differ by rounding are alike";
  // What nothing hides takes as long in whatever pieces, but for what each takes to begin.
  EXPECT_DOUBLE_EQ(exposed_us(lay_out(sizes, order, {.cap_bytes = 16 << 20}), price_of(10, 0), 0), 50);
  EXPECT_DOUBLE_EQ(exposed_us(lay_out(sizes, order, {.cap_bytes = 16 << 20}), price_of(10, 0), 1000), 10);
}

}  // namespace
}  // namespace tutti::strategy
