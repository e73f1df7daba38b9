// What a model's training says in a step by tutti::train, call by call: the same tensors, buckets, units, fragments and
// cuts that a strategy lays out, so that what a communicator counts in a run equals this exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/model.h"
#include "strategy/pipeline.h"
#include "strategy/units.h"
#include "tutti/train/report.h"
#include "tutti/types.h"

namespace tutti::plan {

struct TrainingShape {
  int stage = 0;  // of ZeRO; 0 is data parallel
  int ranks = 1;
  DType type = DType::bfloat16;
  std::size_t bucket_bytes = 25 << 20;
  std::size_t gathered_units = 3;  // of stage 3: held whole at once
};

// A unit of stage 3 is the embedding, a layer, or what stands behind the last.
inline std::size_t unit_of(const ModelTensor& tensor) { return static_cast<std::size_t>(tensor.layer + 1); }

// So many times a forward pass over all units, and a backward pass in reverse.
std::vector<strategy::UnitEvent> passes_over(std::size_t units, int times = 1);

// Of a step behind the first, gradients ready from the last tensor to the first.
train::Sentence training_sentence(const ModelShape& model, const TrainingShape& shape);

// What is said in one step of a batch of so many tokens on a rank, by other strategies.
struct PassShape {
  std::uint64_t tokens = 0;  // of a micro-batch
  DType type = DType::bfloat16;
};
// A stage of a pipeline.
train::Sentence pipeline_sentence(const ModelShape& model, const strategy::PipelineShape& shape, int stage,
                                  const PassShape& pass);
// A rank of so many that layers are cut over, sequence parallel or not.
train::Sentence tensor_sentence(const ModelShape& model, int ranks, bool sequence, const PassShape& pass);
// A rank of so many that the experts of one layer are spread over, where every rank's tokens go to all experts alike
// and none is dropped.
train::Sentence experts_sentence(const ModelShape& model, int ranks, const PassShape& pass);
// A replica of so many that exchange in turn, once in `every` steps, how far the fragments came.
train::Sentence local_updates_sentence(const ModelShape& model, int replicas, std::int64_t every,
                                       std::size_t fragments = 1);
// A worker that pulls all tensors and pushes their gradients once in a clock.
train::Sentence server_sentence(const ModelShape& model, int servers);
// An actor that took so many versions of the weights, sent so many trajectories and was told news so many times, all in
// all.
struct ActorCalls {
  std::uint64_t versions = 0, trajectories = 0, news = 0;
};
train::Sentence actor_sentence(const ModelShape& model, std::uint64_t trajectory_floats, const ActorCalls& calls);

}  // namespace tutti::plan
