#include "strategy/bucket_cap.h"

#include <map>
#include <tuple>

#include "strategy/timeline.h"

namespace tutti::strategy {
namespace {

constexpr std::size_t kSmallestCap = 1 << 20, kLargestCap = 512 << 20;
constexpr double kRounding = 1e-9;  // share of a price

}  // namespace

double exposed_us(const BucketLayout& layout, const BucketPrice& price_us, double backward_us) {
  double elements = 0, so_far = 0;
  for (const Bucket& bucket : layout.buckets) elements += static_cast<double>(bucket.filled);
  std::vector<PricedBucket> buckets;
  for (const Bucket& bucket : layout.buckets) {
    so_far += static_cast<double>(bucket.filled);
    const double ready_us = elements > 0 ? backward_us * so_far / elements : 0;
    buckets.push_back({bucket.bytes(), bucket.parameters.size(), ready_us, price_us(bucket)});
  }
  double exposed = 0;
  for (const train::BucketTimes& bucket : play_buckets(buckets, backward_us)) exposed += bucket.exposed_us;
  return exposed;
}

std::size_t cheapest_cap(std::span<const TensorSize> parameters, std::span<const std::size_t> order, int ranks,
                         const std::function<double(const BucketLayout&)>& exposed_us) {
  std::size_t bytes = 0;
  for (const TensorSize& parameter : parameters) bytes += parameter.elements * size_of(parameter.type);
  std::size_t best = 0, buckets = 0;
  double least = 0;
  for (std::size_t cap = kSmallestCap; cap <= kLargestCap; cap *= 2) {
    const BucketLayout layout = lay_out(parameters, order, {.cap_bytes = cap, .ranks = ranks});
    const double exposed = exposed_us(layout), alike = kRounding * least;
    const bool is_less = exposed < least - alike || (exposed <= least + alike && layout.buckets.size() < buckets);
    if (best == 0 || is_less) {
      best = cap;
      buckets = layout.buckets.size();
      least = exposed;
    }
    if (cap >= bytes) break;  // larger ones cut nothing
  }
  return best;
}

std::size_t cheapest_cap(std::span<const TensorSize> parameters, int ranks, const BucketPrice& price_us) {
  // Layers are alike, and so are most of their buckets.
  std::map<std::tuple<std::size_t, DType, bool>, double> known;
  const auto price = [&](const Bucket& bucket) {
    const auto [found, is_new] = known.try_emplace({bucket.filled, bucket.type, bucket.compressed});
    if (is_new) found->second = price_us(bucket);
    return found->second;
  };
  constexpr std::size_t kUnlimited = ~std::size_t{0};
  const std::vector<std::size_t> order = reverse_order(parameters.size());
  double in_one_us = 0;
  const BucketRule in_one{.first_bytes = kUnlimited, .cap_bytes = kUnlimited, .ranks = ranks};
  for (const Bucket& bucket : lay_out(parameters, order, in_one).buckets) in_one_us += price(bucket);
  return cheapest_cap(parameters, order, ranks,
                      [&](const BucketLayout& layout) { return exposed_us(layout, price, in_one_us); });
}

}  // namespace tutti::strategy
