// The plan and the run agree: what a planned model's training says is what the communicator counts, call by call.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "plan/training.h"
#include "train/array_engine.h"
#include "train/ones.h"
#include "tutti/train/experts.h"
#include "tutti/train/local_updates.h"
#include "tutti/train/parameter_server.h"
#include "tutti/train/pipeline.h"

namespace tutti::plan {
namespace {

using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::require;

constexpr Verb kSpoken[] = {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather,
                            Verb::broadcast,  Verb::send_recv,      Verb::all_to_all};

// What was counted from one moment to another is what was planned, so many times.
void require_agreement(const Counters& before, const Counters& after, const train::Sentence& planned,
                       const std::string& where, std::uint64_t steps = 1) {
  for (const Verb verb : kSpoken) {
    const train::Spoken said = spoken(planned, verb);
    const auto calls = after[verb].calls - before[verb].calls, bytes = after[verb].bytes - before[verb].bytes;
    const std::string of = where + ", " + std::string(name_of(verb)) + ": ";
    require(calls == steps * said.calls,
            of + std::to_string(calls) + " calls, planned " + std::to_string(steps * said.calls));
    require(bytes == steps * said.bytes,
            of + std::to_string(bytes) + " bytes, planned " + std::to_string(steps * said.bytes));
  }
}

// Small, and awkward: odd sizes, tensors below and above the cap.
ModelShape small_model(bool gated) {
  ModelShape model = find_model(gated ? "llama2-7b" : "gpt2");
  model.layers = 3;
  model.hidden = 24;
  model.heads = model.kv_heads = 3;
  model.head_size = 8;
  model.ffn = 100;
  model.vocab = 331;
  return model;
}

// A model of zeros, in the units of the plan.
struct SmallTraining {
  explicit SmallTraining(const ModelShape& model) {
    for (const ModelTensor& tensor : tensors_of(model)) {
      train::Parameter parameter{.name = tensor.name, .shape = {static_cast<std::int64_t>(tensor.elements)}};
      parameter.unit = unit_of(tensor);
      memory.emplace_back(tensor.elements);
      parameters.push_back(parameter);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].values = memory[i].data();
  }

  void step(train::Strategy& strategy) const {
    const std::size_t units = parameters.back().unit + 1;
    strategy.zero_gradients();
    for (std::size_t unit = 0; unit < units; ++unit) {
      strategy.gather(unit);
      strategy.release(unit);
    }
    std::size_t next = parameters.size();
    for (std::size_t unit = units; unit-- > 0;) {
      strategy.gather(unit);
      strategy.release(unit);
      for (; next > 0 && parameters[next - 1].unit == unit; --next) {
        testing::fill(strategy, next - 1, 1);
        strategy.ready(next - 1);
      }
    }
    strategy.step();
  }

  train::Parameters parameters;
  std::vector<std::vector<float>> memory;
};

TEST(Agreement, OfThePlannedSentenceWithTheCountedOne) {
  for (const bool gated : {false, true}) {
    const ModelShape model = small_model(gated);
    for (const int stage : kStages) {
      for (const int ranks : {2, 3}) {
        for (const std::size_t cap : {std::size_t{4} << 10, std::size_t{1} << 20}) {
          const TrainingShape shape{stage, ranks, DType::float32, cap, 2};
          const train::Sentence planned = training_sentence(model, shape);
          ASSERT_FALSE(planned.empty());
          on_ranks(ranks, [&](Communicator& comm) {
            const SmallTraining training(model);
            train::Strategy strategy =
                make(stage, comm, training.parameters, {.bucket_bytes = cap, .gathered_units = 2});
            training.step(strategy);  // which settles the buckets
            training.step(strategy);
            const Counters before = strategy.counters();
            training.step(strategy);
            require_agreement(before, strategy.counters(), planned,
                              "stage " + std::to_string(stage) + ", " + std::to_string(ranks) + " ranks");
          });
        }
      }
    }
  }
}

TEST(Agreement, OfPipelines) {
  constexpr std::uint64_t kTokens = 7;
  const ModelShape model = small_model(false);
  for (const strategy::PipelineShape& shape :
       {strategy::PipelineShape{train::PipelineSchedule::one_f_one_b, 3, 5, 1},
        strategy::PipelineShape{train::PipelineSchedule::interleaved, 2, 4, 2}}) {
    on_ranks(shape.stages, [&](Communicator& comm) {
      const bool is_last = comm.rank() == shape.stages - 1;
      const auto activation = [&] {
        train::PipelineArray array = testing::array_of(kTokens, static_cast<std::size_t>(model.hidden));
        std::ranges::fill(std::span(array.as<float>(), kTokens * static_cast<std::size_t>(model.hidden)), 1.0F);
        return array;
      };
      train::PipelineEngine engine;
      engine.forward = [&](int, int chunk, const train::PipelineArray&) {
        return is_last && chunk == shape.chunks - 1 ? train::PipelineArray() : activation();
      };
      engine.backward = [&](int, int chunk, const train::PipelineArray&) {
        return comm.rank() == 0 && chunk == 0 ? train::PipelineArray() : activation();
      };
      train::Pipeline pipeline(
          comm, engine, {.schedule = shape.schedule, .microbatches = shape.microbatches, .chunks = shape.chunks});
      pipeline.step();
      const Counters before = pipeline.counters();
      pipeline.step();
      require_agreement(before, pipeline.counters(),
                        pipeline_sentence(model, shape, comm.rank(), {kTokens, DType::float32}), "pipeline");
    });
  }
}

TEST(Agreement, OfExperts) {
  ModelShape model = small_model(false);
  model.experts = 4;
  model.top_k = 2;
  constexpr std::size_t kTokens = 12;  // of a rank: every expert is chosen as often as any
  const auto experts = static_cast<std::size_t>(model.experts), width = static_cast<std::size_t>(model.hidden);
  on_ranks(2, [&](Communicator& comm) {
    std::vector<float> logits(kTokens * experts, 0.0F), tokens(kTokens * width, 1.0F);
    for (std::size_t token = 0; token < kTokens; ++token)
      for (std::size_t k = 0; k < 2; ++k) logits[token * experts + (2 * token + k) % experts] = 5;
    const train::Routing routing = train::route(logits, {.experts = model.experts, .top_k = model.top_k});
    train::Experts layer(comm, model.experts, width);
    const Counters before = layer.counters();  // ranks have compared their settings
    const std::span<const float> came = layer.dispatch(routing, tokens);
    const std::vector<float> outputs(came.begin(), came.end());
    std::vector<float> result(tokens.size()), weights(routing.experts.size());
    layer.combine(outputs, result);
    layer.combine_backward(result, weights);
    layer.dispatch_backward(outputs, result);
    require_agreement(before, layer.counters(), experts_sentence(model, 2, {kTokens, DType::float32}), "experts");
  });
}

TEST(Agreement, OfLocalUpdates) {
  const ModelShape model = small_model(true);
  for (const std::size_t fragments : {1, 3}) {
    on_ranks(3, [&](Communicator& comm) {
      const SmallTraining training(model);
      train::Replicas replicas = train::make_replicas(comm, 1);
      train::Strategy strategy = train::data_parallel(replicas.inside, training.parameters, train::AdamW{});
      train::LocalUpdates local(replicas, strategy, {.every = 6, .fragments = fragments});
      const auto steps = [&](int count) {
        for (int step = 0; step < count; ++step) {
          strategy.zero_gradients();
          for (std::size_t i = training.parameters.size(); i-- > 0;) {
            testing::fill(strategy, i, 1);
            strategy.ready(i);
          }
          local.step();
        }
      };
      steps(6);
      const Counters before = local.counters();
      steps(12);
      require_agreement(before, local.counters(), local_updates_sentence(model, 3, 6, fragments), "local updates", 2);
    });
  }
}

TEST(Agreement, OfParameterServers) {
  const ModelShape model = small_model(false);
  on_ranks(4, [&](Communicator& comm) {
    const SmallTraining training(model);
    train::ServedParameters served;
    for (std::size_t i = 0; i < training.parameters.size(); ++i)
      served.push_back({.name = training.parameters[i].name,
                        .shape = training.parameters[i].shape,
                        .values = training.memory[i].data()});
    train::ParameterServer server(comm, served, train::Sgd{}, {.servers = {2, 3}});
    if (server.serves()) return void(server.serve());
    for (int clock = 0; clock < 2; ++clock) {
      const Counters before = server.counters();
      for (std::size_t i = 0; i < served.size(); ++i) {
        std::vector<float> values(training.parameters[i].elements());
        server.pull(i, values);
        server.push(i, values);
      }
      server.clock();
      require_agreement(before, server.counters(), server_sentence(model, 2), "parameter server");
    }
    server.finish();
  });
}

}  // namespace
}  // namespace tutti::plan
