// Pipelines of ranks: the bits of gradient accumulation, bytes by formula, shapes, ranks that fail or die.
#include "tutti/train/pipeline.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <stdexcept>

#include "check.h"
#include "strategy/pipeline.h"
#include "train/array_engine.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::ArrayPart;
using testing::contains;
using testing::engine_of;
using testing::error_of;
using testing::on_ranks;
using testing::Ranks;
using testing::require;
using train::ArrayShape;
using train::Pipeline;
using train::PipelineArray;
using train::PipelineEngine;
using train::PipelineOptions;
using train::PipelineSchedule;

constexpr std::size_t kRows = 3;
const std::vector<std::size_t> kWidths{5, 9, 4, 12, 7, 3, 8, 6, 2, 10, 5, 11, 4, 6};  // 13 layers

// Where places begin: layers as evenly as may be, which they are not.
std::size_t first_layer(int place, int places) {
  const std::size_t layers = kWidths.size() - 1;
  return layers * static_cast<std::size_t>(place) / static_cast<std::size_t>(places);
}

std::vector<ArrayPart> parts_of(int stage, int stages, int chunks) {
  std::vector<ArrayPart> parts;
  const int places = stages * chunks;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int place = chunk * stages + stage;
    parts.emplace_back(first_layer(place, places), first_layer(place + 1, places), kWidths, kRows);
  }
  return parts;
}

// What one process has that takes the micro-batches one after the other.
ArrayPart accumulated(int microbatches) {
  ArrayPart whole(0, kWidths.size() - 1, kWidths, kRows);
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    whole.forward(microbatch, {});
    whole.input_gradient(microbatch, {});
    whole.weight_gradient(microbatch);
  }
  return whole;
}

void require_same_bits(const std::vector<ArrayPart>& parts, int stage, int stages, const ArrayPart& whole) {
  const int chunks = static_cast<int>(parts.size());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    std::size_t layer = first_layer(chunk * stages + stage, stages * chunks);
    for (const testing::ArrayLayer& own : parts[static_cast<std::size_t>(chunk)].layers) {
      const testing::ArrayLayer& expected = whole.layers[layer++];
      require(own.weight_gradient == expected.weight_gradient && own.bias_gradient == expected.bias_gradient,
              "gradients of layer " + std::to_string(layer - 1));
    }
  }
}

struct Shape {
  PipelineSchedule schedule;
  int stages, microbatches, chunks;
};
constexpr Shape kShapes[] = {{PipelineSchedule::gpipe, 1, 3, 1},       {PipelineSchedule::gpipe, 3, 4, 1},
                             {PipelineSchedule::one_f_one_b, 2, 1, 1}, {PipelineSchedule::one_f_one_b, 4, 7, 1},
                             {PipelineSchedule::interleaved, 1, 2, 3}, {PipelineSchedule::interleaved, 2, 4, 2},
                             {PipelineSchedule::interleaved, 2, 6, 4}, {PipelineSchedule::interleaved, 3, 6, 3},
                             {PipelineSchedule::interleaved, 4, 4, 2}, {PipelineSchedule::zb_h1, 2, 5, 1},
                             {PipelineSchedule::zb_h1, 4, 6, 1},       {PipelineSchedule::zb_h1, 5, 2, 1}};

void train_and_compare(Communicator& comm, const Shape& shape) {
  std::vector<ArrayPart> parts = parts_of(comm.rank(), shape.stages, shape.chunks);
  Pipeline pipeline(
      comm, engine_of(parts),
      {.schedule = shape.schedule, .microbatches = shape.microbatches, .chunks = shape.chunks, .verify = true});
  pipeline.step();
  require_same_bits(parts, comm.rank(), shape.stages, accumulated(shape.microbatches));
  std::size_t held = 0;
  for (const ArrayPart& part : parts) held += part.held;
  const strategy::PipelineShape stated{shape.schedule, shape.stages, shape.microbatches, shape.chunks};
  if (shape.chunks == 1)
    require(held <= static_cast<std::size_t>(activations_held(stated, comm.rank())), "activations held");

  // What is counted is what the formula says, in every step but the first, which brings shapes as well.
  const Counters before = pipeline.counters();
  pipeline.step();
  const Counters after = pipeline.counters();
  for (std::size_t verb = 0; verb < kVerbs; ++verb) {
    const train::Spoken said = spoken(pipeline.sentence(), static_cast<Verb>(verb));
    const auto calls = after.verbs[verb].calls - before.verbs[verb].calls;
    const auto bytes = after.verbs[verb].bytes - before.verbs[verb].bytes;
    require(calls == said.calls && bytes == said.bytes,
            std::string(name_of(static_cast<Verb>(verb))) + ": calls " + std::to_string(calls) + " of " +
                std::to_string(said.calls) + ", bytes " + std::to_string(bytes) + " of " + std::to_string(said.bytes));
  }
  require(spoken(pipeline.sentence(), Verb::all_gather).calls == 1, "whether all stages have ended well");
}

TEST(Pipeline, IsGradientAccumulationBitForBit) {
  for (const Shape& shape : kShapes)
    on_ranks(shape.stages, [&](Communicator& comm) { train_and_compare(comm, shape); });
}

TEST(Pipeline, IsSoBetweenProcessesAndOverTcp) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp, Ranks::mixed}) {
    for (const Shape& shape : {kShapes[3], kShapes[7], kShapes[10]})
      testing::expect_all_ok(
          testing::run_ranks(kind, shape.stages, [&](Communicator& comm) { train_and_compare(comm, shape); }));
  }
}

TEST(Pipeline, LargeActivationsTravelToo) {
  // Larger than any buffer of a transport: sends last until they are received.
  on_ranks(3, [](Communicator& comm) {
    constexpr std::size_t kElements = 600'000;
    std::vector<double> sums;
    PipelineEngine engine;
    engine.forward = [&](int microbatch, int, const PipelineArray& input) {
      PipelineArray output = testing::array_of(1, kElements);
      for (std::size_t i = 0; i < kElements; ++i)
        output.as<float>()[i] = input.empty() ? static_cast<float>(microbatch) : input.as<float>()[i] + 1;
      return comm.rank() == 2 ? PipelineArray() : output;
    };
    engine.backward = [&](int, int, const PipelineArray& gradient) {
      PipelineArray made = testing::array_of(1, kElements);
      for (std::size_t i = 0; i < kElements; ++i)
        made.as<float>()[i] = gradient.empty() ? 1 : 2 * gradient.as<float>()[i];
      sums.push_back(made.as<float>()[kElements - 1]);
      return comm.rank() == 0 ? PipelineArray() : made;
    };
    Pipeline pipeline(comm, engine, {.microbatches = 5});
    pipeline.step();
    require(sums == std::vector<double>(5, comm.rank() == 0 ? 4 : comm.rank() == 1 ? 2 : 1), "gradients");
  });
}

// Other shapes than in steps, between steps, whose gradients stay as they are.
TEST(Pipeline, EvaluatesForwardsAlone) {
  for (const Ranks kind : {Ranks::threads, Ranks::tcp}) {
    for (const Shape& shape : {kShapes[0], kShapes[3], kShapes[7], kShapes[10]}) {
      testing::expect_all_ok(testing::run_ranks(kind, shape.stages, [&](Communicator& comm) {
        std::vector<ArrayPart> parts = parts_of(comm.rank(), shape.stages, shape.chunks);
        PipelineEngine engine = engine_of(parts);
        const int places = shape.stages * shape.chunks;
        std::vector<float> ends;
        engine.evaluate = [&](int microbatch, int chunk, const PipelineArray& input) {
          const int place = chunk * shape.stages + comm.rank();
          PipelineArray output = testing::array_of(1, 4);
          for (std::size_t i = 0; i < 4; ++i)
            output.as<float>()[i] = place == 0 ? static_cast<float>(100 * microbatch) : input.as<float>()[i] + 1;
          if (place + 1 == places) ends.push_back(output.as<float>()[3]);
          return place + 1 == places ? PipelineArray() : output;
        };
        Pipeline pipeline(
            comm, engine,
            {.schedule = shape.schedule, .microbatches = shape.microbatches, .chunks = shape.chunks, .verify = true});
        pipeline.evaluate();
        pipeline.step();
        require_same_bits(parts, comm.rank(), shape.stages, accumulated(shape.microbatches));
        const Counters before = pipeline.counters();
        pipeline.evaluate();
        const auto calls = pipeline.counters()[Verb::send_recv].calls - before[Verb::send_recv].calls;
        require(2 * calls == spoken(pipeline.sentence(), Verb::send_recv).calls, "half the messages of a step");
        std::vector<float> expected;
        for (int i = 0; i < 2 * shape.microbatches && pipeline.is_last(shape.chunks - 1); ++i)
          expected.push_back(static_cast<float>(100 * (i % shape.microbatches) + places - 1));
        require(ends == expected, "every micro-batch went through all places, in order");
      }));
    }
  }
}

TEST(Pipeline, TiedWeightsAreSummedOverBothEnds) {
  for (const int stages : {1, 2, 4}) {
    on_ranks(stages, [&](Communicator& comm) {
      std::vector<ArrayPart> parts = parts_of(comm.rank(), stages, 1);
      Pipeline pipeline(comm, engine_of(parts), {.microbatches = 4});
      pipeline.step();
      std::vector<float> gradient(6, static_cast<float>(comm.rank() + 1));
      pipeline.reduce_tied(gradient);
      const bool end = pipeline.is_first() || pipeline.is_last();
      require(gradient[5] == static_cast<float>(stages > 1 && end ? 1 + stages : comm.rank() + 1), "sum");
      require(pipeline.counters()[Verb::all_reduce].calls == (stages > 1 && end ? 1u : 0u), "calls");
    });
  }
}

TEST(Pipeline, MemoryIsUsedAgain) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 2, 1);
    std::set<const void*> places;
    PipelineEngine engine = engine_of(parts);
    engine.forward = [&, forward = engine.forward](int microbatch, int chunk, const PipelineArray& x) {
      if (!x.empty()) places.insert(x.memory.get());
      return forward(microbatch, chunk, x);
    };
    Pipeline pipeline(comm, engine, {.microbatches = 6});
    for (int step = 0; step < 3; ++step) pipeline.step();
    require(places.size() <= 3, "one that computes, one that comes, and no more: " + std::to_string(places.size()));
  });
}

TEST(Pipeline, MemoryMayBeTheCallers) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 2, 1);
    std::size_t asked = 0;
    PipelineOptions options{.microbatches = 6};
    options.allocate = [&](std::size_t bytes) {
      ++asked;
      const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
      return std::shared_ptr<void>(memory, memory->data());
    };
    Pipeline pipeline(comm, engine_of(parts), options);
    pipeline.step();
    require(asked == 6, "for every activation, or gradient");
    require_same_bits(parts, comm.rank(), 2, accumulated(6));
  });
}

// ---- What goes wrong.

TEST(PipelineMistakes, ShapesThatDoNotMeetNameBothStages) {
  on_ranks(3, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 3, 1);
    PipelineOptions options{.microbatches = 4};
    if (comm.rank() == 2) options.inputs = {ArrayShape{DType::float32, {3, 99}}};
    Pipeline pipeline(comm, engine_of(parts), options);
    const Error error = error_of([&] { pipeline.step(); });
    require(error.code() == ErrorCode::invalid_argument && error.peer() == 2, error.what());
    require(contains(error.what(), "stage 2 takes float32 [3, 99], and stage 1 makes float32 [3, 2] for it; cut the"),
            error.what());
    const Error again = error_of([&] { pipeline.step(); });
    require(again.code() == ErrorCode::aborted && contains(again.what(), "has failed before"), again.what());
  });
}

TEST(PipelineMistakes, OfAnEngineAreToldToAllRanks) {
  on_ranks(4, [](Communicator& comm) {
    const auto fails = [&](const std::function<void(PipelineEngine&)>& spoil) {
      std::vector<ArrayPart> parts = parts_of(comm.rank(), 4, 1);
      PipelineEngine engine = engine_of(parts);
      if (comm.rank() == 1) spoil(engine);
      Pipeline pipeline(comm, engine, {.microbatches = 6});
      const Error error = error_of([&] { pipeline.step(); });
      require(error.peer() == 1, error.what());
      return std::string(error.what());
    };
    const auto expect = [](const std::string& words, const std::string& part) {
      require(contains(words, part), words);
    };
    expect(fails([](PipelineEngine& engine) {
             engine.backward = [](int, int, const PipelineArray&) -> PipelineArray { throw std::runtime_error("NaN"); };
           }),
           "rank 1: stage 1: backward of micro-batch 0: NaN");
    expect(fails([](PipelineEngine& engine) {
             engine.forward = [forward = engine.forward](int microbatch, int chunk, const PipelineArray& x) {
               return microbatch == 3 ? testing::array_of(3, 1) : forward(microbatch, chunk, x);
             };
           }),
           "stage 1: forward of micro-batch 3 made float32 [3, 1] for stage 2, and float32 [3, 8] before");
    expect(fails([](PipelineEngine& engine) {
             engine.backward = [](int, int, const PipelineArray&) { return testing::array_of(2, 2); };
           }),
           "stage 1: backward of micro-batch 0 made float32 [2, 2] for stage 0, whose activation is float32 [3, 12]");
    expect(fails([](PipelineEngine& engine) {
             engine.forward = [](int, int, const PipelineArray&) { return PipelineArray(); };
           }),
           "stage 1: forward of micro-batch 0 made nothing, and stage 2 waits for it; return an array");
  });
}

// All others have sent and received everything by then.
TEST(PipelineMistakes, InTheLastBackwardOfTheFirstStageAreToldInTheSameStep) {
  on_ranks(3, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 3, 1);
    PipelineEngine engine = engine_of(parts);
    if (comm.rank() == 0) {
      engine.backward = [backward = engine.backward](int microbatch, int chunk, const PipelineArray& gradient) {
        if (microbatch == 3) throw std::runtime_error("out of memory");
        return backward(microbatch, chunk, gradient);
      };
    }
    Pipeline pipeline(comm, engine, {.microbatches = 4});
    const Error error = error_of([&] { pipeline.step(); });
    require(error.peer() == 0, error.what());
    require(contains(error.what(), "stage 0: backward of micro-batch 3: out of memory"), error.what());
  });
}

TEST(PipelineMistakes, OfTheCallersMemoryAreToldToAllRanks) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 2, 1);
    PipelineOptions options{.microbatches = 4};
    options.allocate = [&](std::size_t bytes) -> std::shared_ptr<void> {
      if (comm.rank() == 1) throw std::bad_alloc();
      const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
      return std::shared_ptr<void>(memory, memory->data());
    };
    Pipeline pipeline(comm, engine_of(parts), options);
    const Error error = error_of([&] { pipeline.step(); });
    require(error.peer() == 1 && contains(error.what(), "stage 1: std::bad_alloc"), error.what());
  });
}

TEST(PipelineMistakes, OfSettingsAreRefusedOnAllRanks) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<ArrayPart> parts = parts_of(comm.rank(), 2, 1);
    const PipelineEngine engine = engine_of(parts);
    const auto refused = [&](const PipelineOptions& options, const PipelineEngine& with, const std::string& part) {
      const Error error = error_of([&] { Pipeline(comm, with, options); });
      require(contains(error.what(), part), error.what());
    };
    refused({.microbatches = 4 + comm.rank()}, engine,
            "rank 1 has the settings schedule 1f1b, microbatches 5, chunks 1 where rank 0 has");
    refused({.microbatches = 0}, engine, "a pipeline of 0 micro-batches");
    refused({.schedule = PipelineSchedule::interleaved, .microbatches = 3, .chunks = 2}, engine, "take 4");
    refused({.microbatches = 2, .inputs = {{}, {}}}, engine, "inputs has 2 shapes for 1 chunks");
    Pipeline without(comm, engine, {.microbatches = 2});
    require(contains(error_of([&] { without.evaluate(); }).what(), "the engine has no evaluate()"), "evaluate()");
    PipelineEngine lacking = engine;
    if (comm.rank() == 1) lacking.weight_gradient = {};
    refused({.schedule = PipelineSchedule::zb_h1, .microbatches = 2}, lacking, "rank 1: zb-h1 calls input_gradient()");
  });
}

TEST(PipelineKilledRanks, AreNamedByEverySurvivor) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp}) {
    const auto ends = testing::run_ranks(kind, 4, [](Communicator& comm) {
      std::vector<ArrayPart> parts = parts_of(comm.rank(), 4, 1);
      PipelineEngine engine = engine_of(parts);
      int steps = 0;
      engine.backward = [&, backward = engine.backward](int microbatch, int chunk, const PipelineArray& gradient) {
        if (comm.rank() == 2 && steps == 1 && microbatch == 3) ::raise(SIGKILL);
        return backward(microbatch, chunk, gradient);
      };
      Pipeline pipeline(comm, engine, {.microbatches = 8});
      pipeline.step();
      ++steps;
      const Error error = error_of([&] { pipeline.step(); });
      require(error.code() == ErrorCode::peer_lost && error.peer() == 2, error.what());
    });
    EXPECT_EQ(ends[2].signal, SIGKILL);
    for (const std::size_t rank : {0u, 1u, 3u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
  }
}

}  // namespace
}  // namespace tutti
