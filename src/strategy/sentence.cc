#include "strategy/sentence.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace tutti::strategy {
namespace {

std::string name_of_bucket(std::size_t index, const Bucket& bucket) {
  const std::size_t count = bucket.parameters.size();
  return "bucket " + std::to_string(index) + ", " + std::to_string(count) + (count == 1 ? " parameter" : " parameters");
}

}  // namespace

train::Sentence sentence_of(const BucketLayout& layout, const StepShape& shape) {
  train::Sentence sentence;
  const auto say = [&](Verb verb, std::string what, std::size_t bytes) {
    sentence.push_back({verb, std::move(what), bytes, 1, shape.ranks});
  };
  const auto timed = [&](std::size_t bucket, const std::vector<CallTimesUs>& times) {
    if (bucket >= times.size()) return;
    sentence.back().under_way_us = times[bucket].under_way_us;
    sentence.back().exposed_us = times[bucket].exposed_us;
  };
  if (shape.weighted) say(Verb::all_reduce, "examples", sizeof(double));
  for (std::size_t i = 0; i < layout.buckets.size(); ++i) {
    const Bucket& bucket = layout.buckets[i];
    if (shape.compresses_yet && shape.compressed[i]) {
      const CompressedCalls& calls = *shape.compressed[i];
      const std::string what = calls.how + " gradients of " + name_of_bucket(i, bucket);
      say(calls.verb, what, calls.bytes);
      timed(i, shape.gradient_times);  // of both calls, which are one exchange
      if (calls.returned_bytes) say(calls.returned_by, what + ", back", *calls.returned_bytes);
    } else if (shape.stage == 0) {
      say(Verb::all_reduce, "gradients of " + name_of_bucket(i, bucket), bucket.filled_bytes());
      timed(i, shape.gradient_times);
    } else {
      say(Verb::reduce_scatter, "gradients of " + name_of_bucket(i, bucket), bucket.bytes());
      timed(i, shape.gradient_times);
    }
  }
  if (shape.may_skip) say(Verb::all_reduce, "which parameters were used", shape.parameters);
  if (shape.noise) say(Verb::all_reduce, "squares of ranks' gradients", sizeof(double));
  // Whoever has all gradients needs nobody to find their norm.
  if (shape.measured && shape.stage > 0) say(Verb::all_reduce, "squares of blocks", shape.blocks * sizeof(double));
  if (shape.model_ranks > 1)
    sentence.push_back({Verb::all_gather, "squares of parts of the model",
                        3 * sizeof(double) * static_cast<std::size_t>(shape.model_ranks), 1, shape.model_ranks});
  for (std::size_t i = 0; i < shape.gathers.size(); ++i) {
    if (shape.gathers[i] == 0) continue;
    say(Verb::all_gather, "values of " + name_of_bucket(i, layout.buckets[i]), layout.buckets[i].bytes());
    sentence.back().times = shape.gathers[i];
    timed(i, shape.value_times);
  }
  const bool gathers_at_end = shape.stage == 1 || shape.stage == 2;
  for (std::size_t i = 0; gathers_at_end && i < layout.buckets.size(); ++i) {
    say(Verb::all_gather, "values of " + name_of_bucket(i, layout.buckets[i]), layout.buckets[i].bytes());
    timed(i, shape.value_times);
  }
  return sentence;
}

train::StateBytes state_bytes_of(const BucketLayout& layout, const StepShape& shape,
                                 std::span<const TensorSize> parameters) {
  train::StateBytes bytes;
  const int cut = shape.stage > 0 ? shape.ranks : 1;
  const auto states = static_cast<std::uint64_t>(shape.state_arrays) * sizeof(float);
  std::size_t largest = 0;
  for (const TensorSize& parameter : parameters) bytes.elements += parameter.elements;
  for (const Bucket& bucket : layout.buckets) {
    const std::size_t own = bucket.shard(cut), size = size_of(bucket.type);
    bytes.values += (shape.stage == 3 ? own : bucket.elements) * size;
    bytes.gradients += (shape.stage >= 2 ? own : bucket.elements) * size;
    bytes.master += bucket.type == DType::float32 ? 0 : own * sizeof(float);  // 32-bit values are their own
    bytes.optimizer += own * states;
    bytes.padding += bucket.elements;
    largest = std::max(largest, bucket.bytes());
  }
  bytes.padding -= bytes.elements;
  if (shape.state_bytes) bytes.optimizer = *shape.state_bytes;
  for (const std::optional<CompressedCalls>& calls : shape.compressed)
    if (calls) bytes.errors += calls->error_bytes;
  if (shape.stage >= 2)
    bytes.in_flight = std::min(kGradientBuffers, layout.buckets.size()) * largest + shape.gathered_bytes;
  return bytes;
}

}  // namespace tutti::strategy
