#include "strategy/buckets.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::strategy {
namespace {

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
    std::vector<TensorSize> own;
    std::vector<std::size_t> turns;
    for (const std::size_t i : order) {
      turns.push_back(own.size());
      own.push_back(parameters[i]);
    }
    BucketLayout part = lay_out(own, turns, {.first_bytes = kUnlimited, .cap_bytes = kUnlimited, .ranks = ranks});
    for (std::size_t i = 0; i < order.size(); ++i)
      layout.places[order[i]] = {part.places[i].bucket + layout.buckets.size(), part.places[i].offset};
    for (Bucket& bucket : part.buckets) {
      for (std::size_t& parameter : bucket.parameters) parameter = order[parameter];
      layout.buckets.push_back(std::move(bucket));
    }
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
