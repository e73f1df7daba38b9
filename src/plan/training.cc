#include "plan/training.h"

#include <vector>

#include "strategy/buckets.h"
#include "strategy/fragments.h"
#include "strategy/pipeline_sentence.h"
#include "strategy/sentence.h"
#include "strategy/server_keys.h"
#include "strategy/tensor_sentence.h"

namespace tutti::plan {

std::vector<strategy::UnitEvent> passes_over(std::size_t units, int times) {
  std::vector<strategy::UnitEvent> events;
  const auto use = [&](std::size_t unit) {
    events.push_back({unit, true});
    events.push_back({unit, false});
  };
  for (int pass = 0; pass < times; ++pass) {
    for (std::size_t unit = 0; unit < units; ++unit) use(unit);
    for (std::size_t unit = units; unit-- > 0;) use(unit);
  }
  return events;
}

train::Sentence training_sentence(const ModelShape& model, const TrainingShape& shape) {
  std::vector<strategy::TensorSize> sizes;
  std::vector<std::size_t> units;
  for (const ModelTensor& tensor : tensors_of(model)) {
    sizes.push_back({tensor.elements, shape.type});
    units.push_back(unit_of(tensor));
  }
  strategy::StepShape step;
  step.stage = shape.stage;
  step.ranks = shape.ranks;
  step.parameters = sizes.size();
  if (shape.stage < 3) {
    const strategy::BucketRule rule{.cap_bytes = shape.bucket_bytes, .ranks = shape.ranks};
    return sentence_of(lay_out(sizes, strategy::reverse_order(sizes.size()), rule), step);
  }
  const strategy::BucketLayout layout = lay_out_units(sizes, units, shape.ranks);
  const std::size_t count = units.back() + 1;
  const std::vector<std::size_t> by_unit = gathers_of(passes_over(count), count, shape.gathered_units);
  for (const strategy::Bucket& bucket : layout.buckets)
    step.gathers.push_back(by_unit[units[bucket.parameters.front()]]);
  return sentence_of(layout, step);
}

train::Sentence pipeline_sentence(const ModelShape& model, const strategy::PipelineShape& shape, int stage,
                                  const PassShape& pass) {
  const std::uint64_t activation = pass.tokens * static_cast<std::uint64_t>(model.hidden) * size_of(pass.type);
  const std::vector<std::uint64_t> boundaries(static_cast<std::size_t>(shape.places()) - 1, activation);
  return sentence_of(shape, stage, boundaries);
}

train::Sentence tensor_sentence(const ModelShape& model, int ranks, bool sequence, const PassShape& pass) {
  train::TensorParallelShape shape;
  shape.ranks = ranks;
  shape.layers = model.layers;
  shape.tokens = pass.tokens;
  shape.width = static_cast<std::uint64_t>(model.hidden);
  shape.places = static_cast<std::uint64_t>(model.positions);
  shape.type = pass.type;
  shape.sequence = sequence;
  shape.biases = model.biases;
  return strategy::sentence_of(shape);
}

train::Sentence experts_sentence(const ModelShape& model, int ranks, const PassShape& pass) {
  const std::uint64_t rows = pass.tokens * static_cast<std::uint64_t>(model.top_k);
  const std::uint64_t bytes = rows * static_cast<std::uint64_t>(model.hidden) * size_of(pass.type);
  const auto counts = static_cast<std::uint64_t>(model.experts) * sizeof(std::uint64_t);
  return {{Verb::all_to_all, "rows for each expert", counts, 1, ranks},
          {Verb::all_to_all, "tokens to experts and back, and their gradients", bytes, 4, ranks}};
}

train::Sentence local_updates_sentence(const ModelShape& model, int replicas, std::int64_t every,
                                       std::size_t fragments) {
  std::vector<strategy::TensorSize> sizes;
  for (const ModelTensor& tensor : tensors_of(model)) sizes.push_back({tensor.elements, DType::float32});
  strategy::ExchangeShape shape;
  shape.every = every;
  shape.replicas = replicas;
  shape.fragments.resize(fragments);
  const std::vector<std::size_t> of = strategy::cut_into_fragments(sizes, fragments);
  for (std::size_t i = 0; i < sizes.size(); ++i) shape.fragments[of[i]].sent += sizes[i].elements * sizeof(float);
  return sentence_of(shape);
}

train::Sentence server_sentence(const ModelShape& model, int servers) {
  std::vector<strategy::KeyShape> keys;
  std::vector<strategy::KeyCall> calls;
  for (const ModelTensor& tensor : tensors_of(model)) {
    for (const bool pushes : {false, true}) calls.push_back({pushes, keys.size(), {}});
    keys.push_back({tensor.name, 1, tensor.elements, false});
  }
  return sentence_of(keys, strategy::cut_keys(keys, servers), calls, servers);
}

train::Sentence actor_sentence(const ModelShape& model, std::uint64_t trajectory_floats, const ActorCalls& calls) {
  constexpr std::uint64_t kVersionBytes = sizeof(std::int64_t), kNewsBytes = 4 * sizeof(std::int64_t);
  const auto weights = static_cast<std::uint64_t>(parameters_of(model).all) * sizeof(float);
  return {{Verb::send_recv, "trajectory", kVersionBytes + trajectory_floats * sizeof(float), calls.trajectories, 2},
          {Verb::send_recv, "farewell", kVersionBytes, 1, 2},
          {Verb::send_recv, "news", kNewsBytes, calls.news, 2},
          {Verb::send_recv, "weights", weights, calls.versions, 2},
          {Verb::send_recv, "taken", kVersionBytes, calls.versions, 2}};
}

}  // namespace tutti::plan
