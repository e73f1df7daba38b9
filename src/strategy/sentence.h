// What a strategy says in a step, by its formulas: what the communicator counts must equal this. And the bytes of model
// states that a rank holds, the table of ZeRO with its padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategy/buckets.h"
#include "tutti/train/report.h"

namespace tutti::strategy {

// How a bucket's gradients travel where they are compressed: a first call, of `bytes`, and a second one of what comes
// back where there are returned_bytes.
struct CompressedCalls {
  Verb verb = Verb::all_reduce;
  std::size_t bytes = 0;
  std::optional<std::size_t> returned_bytes = {};
  Verb returned_by = Verb::all_gather;
  std::size_t error_bytes = 0;  // kept between steps: what was lost
  std::string how = {};

  bool operator==(const CompressedCalls&) const = default;
};

// As Phrase has them.
struct CallTimesUs {
  double under_way_us = 0, exposed_us = 0;
};

// What of a strategy its sentence depends on.
struct StepShape {
  int stage = 0;  // of ZeRO; 0 is data parallel
  int ranks = 1;
  int model_ranks = 1;                            // that have the model together and agree about its norm
  int state_arrays = 2;                           // of the optimizer: fp32 numbers per element
  std::optional<std::uint64_t> state_bytes = {};  // of the optimizer, where it keeps no fp32 numbers
  bool weighted = false;                          // by examples
  bool may_skip = false;                          // parameters may have no gradient
  bool noise = false;                             // norms of ranks' own gradients are measured
  bool measured = false;                          // the norm is needed: for clipping, or for the loss scale
  std::size_t parameters = 0;
  std::size_t blocks = 0;  // of the norm
  // Stage 3: how often each bucket is gathered in a step, and the bytes of units that are held at once.
  std::vector<std::size_t> gathers = {};
  std::size_t gathered_bytes = 0;
  // By bucket, where gradients are compressed: nothing where this one's are not.
  std::vector<std::optional<CompressedCalls>> compressed = {};
  bool compresses_yet = false;  // in this step
  // By bucket, where they were measured: calls of its gradients, and those that gather its values.
  std::vector<CallTimesUs> gradient_times = {}, value_times = {};
};

train::Sentence sentence_of(const BucketLayout& layout, const StepShape& shape);

// Buckets of gradients that stages 2 and 3 hold whole at once, in symmetric memory.
inline constexpr std::size_t kGradientBuffers = 3;

train::StateBytes state_bytes_of(const BucketLayout& layout, const StepShape& shape,
                                 std::span<const TensorSize> parameters);

}  // namespace tutti::strategy
