#include "strategy/buckets.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::strategy {
namespace {

constexpr std::size_t kSmallestCap = 1 << 20, kLargestCap = 64 << 20;

std::size_t rounded_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Where a parameter of so many elements may begin, behind `filled` of its bucket.
std::size_t next_offset(std::size_t filled, std::size_t elements) {
  return filled % kBlock + elements > kBlock ? rounded_up(filled, kBlock) : filled;
}

}  // namespace

BucketLayout lay_out(std::span<const TensorSize> parameters, std::span<const std::size_t> order,
                     const BucketRule& rule) {
  struct Filling {
    Bucket bucket;
    std::vector<std::size_t> offsets;
    std::size_t last = 0;  // place in the order of its last parameter
  };
  std::map<std::pair<DType, bool>, Filling> filling;
  std::vector<Filling> closed;
  for (std::size_t turn = 0; turn < order.size(); ++turn) {
    const TensorSize& parameter = parameters[order[turn]];
    Filling& open = filling[{parameter.type, parameter.compressed}];
    const std::size_t cap = closed.empty() ? std::min(rule.first_bytes, rule.cap_bytes) : rule.cap_bytes;
    std::size_t offset = next_offset(open.bucket.filled, parameter.elements);
    if (!open.bucket.parameters.empty() && (offset + parameter.elements) * size_of(parameter.type) > cap) {
      closed.push_back(std::exchange(open, {}));
      offset = 0;
    }
    open.bucket.type = parameter.type;
    open.bucket.compressed = parameter.compressed;
    open.bucket.parameters.push_back(order[turn]);
    open.offsets.push_back(offset);
    open.bucket.filled = offset + parameter.elements;
    open.last = turn;
  }
  for (auto& [kind, open] : filling) closed.push_back(std::move(open));
  std::sort(closed.begin(), closed.end(), [](const Filling& a, const Filling& b) { return a.last < b.last; });

  BucketLayout layout;
  layout.places.resize(parameters.size());
  for (Filling& done : closed) {
    done.bucket.elements =
        rounded_up(std::max<std::size_t>(1, done.bucket.filled), kBlock * static_cast<std::size_t>(rule.ranks));
    for (std::size_t i = 0; i < done.offsets.size(); ++i)
      layout.places[done.bucket.parameters[i]] = {layout.buckets.size(), done.offsets[i]};
    layout.buckets.push_back(std::move(done.bucket));
  }
  return layout;
}

BucketLayout lay_out_units(std::span<const TensorSize> parameters, std::span<const std::size_t> units, int ranks) {
  constexpr std::size_t kUnlimited = ~std::size_t{0};
  std::map<std::size_t, std::vector<std::size_t>, std::greater<>> members;
  for (std::size_t i = 0; i < parameters.size(); ++i) members[units[i]].push_back(i);
  BucketLayout layout;
  layout.places.resize(parameters.size());
  for (const auto& [unit, order] : members) {
    BucketLayout part =
        lay_out(parameters, order, {.first_bytes = kUnlimited, .cap_bytes = kUnlimited, .ranks = ranks});
    for (const std::size_t i : order)
      layout.places[i] = {part.places[i].bucket + layout.buckets.size(), part.places[i].offset};
    std::ranges::move(part.buckets, std::back_inserter(layout.buckets));
  }
  return layout;
}

std::vector<std::size_t> reverse_order(std::size_t parameters) {
  std::vector<std::size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

std::vector<std::size_t> completed_order(std::span<const std::size_t> seen, std::size_t parameters) {
  std::vector<std::size_t> order(seen.begin(), seen.end());
  std::vector<bool> has(parameters);
  for (const std::size_t parameter : seen) has[parameter] = true;
  for (std::size_t parameter = parameters; parameter-- > 0;)
    if (!has[parameter]) order.push_back(parameter);
  return order;
}

std::size_t cheapest_cap(std::size_t bytes, const std::function<double(std::size_t bytes)>& price_us,
                         double backward_us) {
  struct Cost {
    double first_us = 0, then_us = 0;

    auto operator<=>(const Cost&) const = default;
  };
  const auto cost_of = [&](std::size_t cap) -> Cost {
    const std::size_t whole = bytes / cap, rest = bytes % cap;
    const double last_us = price_us(std::min(cap, bytes));
    const double rest_us = rest > 0 && whole > 0 ? price_us(rest) : 0;
    const double count = static_cast<double>(std::max<std::size_t>(1, whole));
    const double all_us = count * last_us + rest_us;
    if (backward_us <= 0) return {all_us + last_us, 0};
    // The links are busy from the first bucket on, or from the last whole one, or from the rest.
    const auto ready_us = [&](std::size_t made) {
      return backward_us * static_cast<double>(std::min(made, bytes)) / static_cast<double>(bytes);
    };
    const double end_us =
        std::max(ready_us(cap) + all_us, ready_us(whole > 0 ? whole * cap : bytes) + last_us + rest_us);
    return {std::max(end_us, backward_us + rest_us) - backward_us, all_us};
  };
  std::size_t best = kSmallestCap;
  Cost least;
  for (std::size_t cap = kSmallestCap; cap <= kLargestCap; cap *= 2) {
    const Cost cost = cost_of(cap);
    if (cap == kSmallestCap || cost < least) {
      best = cap;
      least = cost;
    }
    if (cap >= bytes) break;  // larger ones cut nothing
  }
  return best;
}

std::size_t blocks_of(std::size_t elements) { return (elements + kBlock - 1) / kBlock; }

std::size_t blocks_of(std::span<const TensorSize> parameters) {
  std::size_t blocks = 0;
  for (const TensorSize& parameter : parameters) blocks += blocks_of(parameter.elements);
  return blocks;
}

std::vector<ShardPart> parts_of(const BucketLayout& layout, std::size_t bucket, std::span<const TensorSize> parameters,
                                std::size_t begin, std::size_t count) {
  std::vector<ShardPart> parts;
  for (const std::size_t parameter : layout.buckets[bucket].parameters) {
    const std::size_t start = layout.places[parameter].offset, end = start + parameters[parameter].elements;
    const std::size_t from = std::max(start, begin), to = std::min(end, begin + count);
    if (from < to) parts.push_back({parameter, from - start, to - from, from - begin});
  }
  return parts;
}

}  // namespace tutti::strategy
