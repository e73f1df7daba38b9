#include "strategy/bucket_cap.h"

#include <map>
#include <tuple>

#include "strategy/timeline.h"

namespace tutti::strategy {
namespace {

constexpr std::size_t kSmallestCap = 1 << 20, kLargestCap = 512 << 20;
constexpr double kRounding = 1e-9;  // share of a price

}  // namespace

double exposed_us(const BucketLayout& layout, const BucketPrice& price_us, std::optional<double> backward_us) {
  double elements = 0, so_far = 0;
  for (const Bucket& bucket : layout.buckets) elements += static_cast<double>(bucket.filled);
  std::vector<PricedBucket> buckets;
  for (const Bucket& bucket : layout.buckets) {
    so_far += static_cast<double>(bucket.filled);
    const double ready_us = elements > 0 ? backward_us.value_or(0) * so_far / elements : 0;
    buckets.push_back({bucket.bytes(), bucket.parameters.size(), ready_us, price_us(bucket)});
  }
  if (buckets.empty()) return 0;
  double exposed = backward_us ? 0 : buckets.back().takes_us;
  for (const train::BucketTimes& bucket : play_buckets(buckets, backward_us.value_or(0))) exposed += bucket.exposed_us;
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
  return cheapest_cap(parameters, reverse_order(parameters.size()), ranks,
                      [&](const BucketLayout& layout) { return exposed_us(layout, price, std::nullopt); });
}

}  // namespace tutti::strategy
