// A model cut into stages, one rank each: micro-batches go through them one behind the other.
//
//   tutti::train::PipelineEngine engine;
//   engine.forward = [&](int microbatch, int chunk, const PipelineArray& input) { ...; return output; };
//   engine.backward = [&](int microbatch, int chunk, const PipelineArray& gradient) { ...; return input_gradient; };
//   tutti::train::Pipeline pipeline(mesh.along("pp"), engine, {.microbatches = 8});
//   for (...) {
//     zero gradients
//     pipeline.step();       // all ranks: every micro-batch forward and backward, gradients add up
//     update the weights     // a strategy of the dp axis, or an optimizer of one's own
//   }
//   pipeline.evaluate();     // all ranks: every micro-batch forward
//
// The rank in the communicator is the stage. The pipeline calls the engine in the order of its schedule, and has what
// one stage makes brought to the next one while they compute; docs/strategies.md draws the schedules and tells what
// each costs. Tests prove them for many shapes (src/strategy/pipeline_verify.h); PipelineOptions::verify does so for
// this one when the pipeline is made.
//
// Every chunk of a stage sees the micro-batches' backwards in their order, so that gradients add up to the bits that
// one process comes to which accumulates the same micro-batches.
//
// Shapes travel once: the first activation that crosses a boundary brings its type and shape, and all others are like
// it. Gradients have those of their activations.
//
// A stage that fails, by its engine's exception or by a shape that does not fit, has all ranks throw its words; a rank
// that dies is named by all. The pipeline is unusable then.
//
// Threads: one thread at a time. It talks on duplicates of the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/pipeline_schedule.h"
#include "tutti/train/report.h"

namespace tutti::train {

class PipelineRunner;

struct ArrayShape {
  DType type = DType::float32;
  std::vector<std::int64_t> extents;  // 8 at most

  std::size_t elements() const {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
    return count;
  }
  std::size_t bytes() const { return elements() * size_of(type); }
  bool operator==(const ArrayShape&) const = default;
};

// Numbers one behind the other, in memory that lasts as long as a copy of this does. Nothing, where `memory` is null.
struct PipelineArray {
  ArrayShape shape;
  std::shared_ptr<void> memory;

  bool empty() const { return memory == nullptr; }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory.get());
  }
};

// What computes. A stage's chunks are numbered from 0; chunk c of stage s is place c * stages + s of the model.
struct PipelineEngine {
  // Through one chunk. The input is what the place before made; empty at the first place, which has examples of its
  // own. Returns what the next place gets, which stays as it is; nothing at the last place. An engine that needs the
  // input again keeps the array.
  std::function<PipelineArray(int microbatch, int chunk, const PipelineArray& input)> forward;
  // Back through it: takes the gradient of what forward returned (empty at the last place), adds to the gradients of
  // the chunk's weights, and returns the gradient of its input; nothing at the first place.
  std::function<PipelineArray(int microbatch, int chunk, const PipelineArray& gradient)> backward;
  // zb-h1 has these in its place: what input_gradient() leaves for it, weight_gradient() adds to the weights' gradients
  // later.
  std::function<PipelineArray(int microbatch, int chunk, const PipelineArray& gradient)> input_gradient;
  std::function<void(int microbatch, int chunk)> weight_gradient;
  // For Pipeline::evaluate(), on all ranks or on none: as forward(), and no backward follows.
  std::function<PipelineArray(int microbatch, int chunk, const PipelineArray& input)> evaluate;
};

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // all ranks alike
  int microbatches = 1;                                       // of a step; all ranks alike
  int chunks = 1;                                             // on every stage, for interleaved; all ranks alike
  // What this stage's chunks take, by chunk, where that is known: compared with what the place before makes.
  std::vector<std::optional<ArrayShape>> inputs = {};
  // Memory for what is received; without it the pipeline keeps some of its own, which it uses again.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate = {};
  bool verify = false;  // prove the schedule first
};

class TUTTI_API Pipeline {
 public:
  // Collective. Error(mismatch) on all ranks where one has other settings; it names the rank.
  Pipeline(Communicator& stages, PipelineEngine engine, const PipelineOptions& options);
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  // Collective: all micro-batches, forward and backward.
  void step();
  // Collective: all micro-batches forward alone, by PipelineEngine::evaluate. Their shapes may be other ones than in
  // step(), the same in every call.
  void evaluate();
  // Collective over the first and the last stage, behind step(): the sum of both, for the gradient of a weight that
  // both have (tied embeddings). Other stages need not call, and do nothing; nor does a pipeline of one stage.
  template <Writable Buffer>
  void reduce_tied(Buffer&& gradient) {
    reduce_tied({.verb = Verb::all_reduce,
                 .input = std::ranges::data(gradient),
                 .output = std::ranges::data(gradient),
                 .input_count = std::ranges::size(gradient),
                 .output_count = std::ranges::size(gradient),
                 .element = Element::of<ElementOf<Buffer>>()});
  }
  void reduce_tied(const Request& request);

  int stage() const;
  int stages() const;
  bool is_first(int chunk = 0) const;  // whether the chunk is the model's first place
  bool is_last(int chunk = 0) const;   // or its last one
  const PipelineOptions& options() const;

  // What this rank says in a step, by formula, once shapes are known: after the first one. Behind its messages all
  // ranks tell each other, by one all_gather, that they have ended well.
  Sentence sentence() const;
  // What it has really called, evaluate(), reduce_tied() and the shapes of the first step included.
  Counters counters() const;

 private:
  std::unique_ptr<PipelineRunner> runner_;
};

}  // namespace tutti::train
