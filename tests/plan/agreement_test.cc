// The plan and the run agree: what a planned model's training says is what the communicator counts, call by call.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "plan/planned_model.h"
#include "plan/training.h"
#include "train/array_engine.h"
#include "train/ones.h"
#include "tutti/train/actor_learner.h"
#include "tutti/train/experts.h"
#include "tutti/train/local_updates.h"
#include "tutti/train/parameter_server.h"
#include "tutti/train/pipeline.h"
#include "tutti/train/tensor_parallel.h"

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
            const tools::IdleModel training = planned_model(model);
            train::Strategy strategy =
                make(stage, comm, training.parameters, {.bucket_bytes = cap, .gathered_units = 2});
            const auto step = [&] {
              strategy.zero_gradients();
              training.step(strategy, [&](std::size_t parameter) { testing::fill(strategy, parameter, 1); });
            };
            step();  // which settles the buckets
            step();
            const Counters before = strategy.counters();
            step();
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

// Layers of two products cut by columns and two cut by rows, as crossings and losses; the products are left out.
TEST(Agreement, OfTensorParallel) {
  constexpr std::size_t kTokens = 12;
  for (const bool sequence : {false, true}) {
    for (const bool gated : {false, true}) {
      ModelShape model = small_model(gated);
      model.positions = gated ? 0 : 16;
      const auto width = static_cast<std::size_t>(model.hidden);
      on_ranks(3, [&](Communicator& comm) {
        train::TensorParallel tp(comm);
        std::vector<float> whole(kTokens * width), part(whole.size() / 3);
        const auto cross = [&](train::Crossing crossing) {
          const bool gathers = crossing == train::Crossing::gather_sequence;
          const bool scatters = crossing == train::Crossing::reduce_scatter_sequence;
          tp.cross(crossing, (gathers ? part : whole).data(), (scatters ? part : whole).data(),
                   {.extent = kTokens, .behind = width});
        };
        const auto sum = [&](std::size_t numbers) {
          std::vector<float> gradient(numbers);
          tp.reduce(gradient.data(), numbers, DType::float32, ReduceOp::sum);
        };
        const train::Crossing in = sequence ? train::Crossing::gather_sequence : train::Crossing::copy,
                              out = sequence ? train::Crossing::reduce_scatter_sequence : train::Crossing::reduce;
        const Counters before = tp.counters();
        for (int pair = 0; pair < 2 * model.layers + 1; ++pair) {
          cross(out);
          cross(in);
          cross(conjugate(out));
          cross(conjugate(in));
          if (!sequence) continue;
          cross(in);  // once more, for gradients of weights
          sum(width * (model.biases ? 2 : 1));
          if (model.biases && pair < 2 * model.layers) sum(width);
        }
        if (sequence && model.positions > 0) sum(width * static_cast<std::size_t>(model.positions));
        const auto columns = static_cast<std::size_t>(tp.part_of(model.vocab).count);
        const std::vector<std::int64_t> targets(kTokens);
        std::vector<float> logits(kTokens * columns), losses(kTokens), gradient(logits.size());
        vocabulary_cross_entropy(tp, std::span<const float>(logits), targets, model.vocab, losses, gradient);
        require_agreement(before, tp.counters(), tensor_sentence(model, 3, sequence, {kTokens, DType::float32}),
                          sequence ? "sequence parallel" : "tensor parallel");
      });
    }
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
      const tools::IdleModel training = planned_model(model);
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
    const tools::IdleModel training = planned_model(model);
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

// How many news there are is a matter of timing; that they and all else have the planned bytes is not.
TEST(Agreement, OfActors) {
  const ModelShape model = small_model(false);
  constexpr std::size_t kFloats = 77;
  constexpr train::ActorOptions kOptions{.most_floats = kFloats, .queue = 2};
  const std::vector<float> weights(static_cast<std::size_t>(parameters_of(model).all)), trajectory(kFloats);
  on_ranks(3, [&](Communicator& comm) {
    if (comm.rank() == kOptions.learner) {
      train::Learner learner(comm, weights, kOptions);
      for (int taken = 0; taken < 30; ++taken) {
        learner.take();
        learner.publish(weights);
      }
      return learner.stop();
    }
    train::Actor actor(comm, weights.size(), kOptions);
    while (actor.running()) {
      static_cast<void>(actor.weights());
      if (actor.version() >= 0) static_cast<void>(actor.send(trajectory));
    }
    ActorCalls calls{actor.versions(), actor.trajectories(), 0};
    const train::Sentence silent = actor_sentence(model, kFloats, calls);
    calls.news = actor.counters()[Verb::send_recv].calls - spoken(silent, Verb::send_recv).calls;
    require_agreement({}, actor.counters(), actor_sentence(model, kFloats, calls), "actor");
  });
}

}  // namespace
}  // namespace tutti::plan
