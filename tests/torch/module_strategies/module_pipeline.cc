// tutti/train/torch_pipeline.h on every rank of a job, as many stages as ranks: gradients are those of one process that
// accumulates the same micro-batches, bit for bit, in every schedule; what is kept, evaluation, tied embeddings,
// weights that a stage uses twice, data parallel and ZeRO beside it, and mistakes.
#include <torch/torch.h>
#include <tutti/train/mesh.h>
#include <tutti/train/torch.h>
#include <tutti/train/torch_pipeline.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tutti/tutti.hpp>
#include <vector>

#include "torch/job_checks.h"

namespace {

namespace nn = torch::nn;
namespace train = tutti::train;
using job_checks::expect;
using job_checks::words_of;
using torch::Tensor;

constexpr std::int64_t kWords = 40, kWidth = 24, kLength = 6, kRows = 3;
constexpr int kLayers = 13;

struct LayerImpl : nn::Module {
  LayerImpl() {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
    up = register_module("up", nn::Linear(kWidth, 3 * kWidth));
    down = register_module("down", nn::Linear(3 * kWidth, kWidth));
  }
  Tensor forward(const Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Layer);

// All of the model; a stage uses those of its parts that lie on it.
struct StackImpl : nn::Module {
  explicit StackImpl(bool is_tied = false) {
    words = register_module("words", nn::Embedding(kWords, kWidth));
    layers = register_module("layers", nn::ModuleList());
    for (int i = 0; i < kLayers; ++i) layers->push_back(Layer());
    head = register_module("head", nn::Linear(nn::LinearOptions(kWidth, kWords).bias(false)));
    if (is_tied) head->weight = words->weight;
  }
  Tensor through(Tensor x, int first, int end) {
    for (int i = first; i < end; ++i) x = layers->ptr<LayerImpl>(static_cast<std::size_t>(i))->forward(x);
    return x;
  }
  nn::Embedding words{nullptr};
  nn::ModuleList layers{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Stack);

Stack make_model(at::ScalarType type, bool is_tied = false) {
  torch::manual_seed(5);
  Stack model(is_tied);
  model->to(type);
  return model;
}

struct Batch {
  Batch(int replica, int step, int microbatch) {
    torch::manual_seed(1000 + 100 * step + 10 * microbatch + replica);
    x = torch::randint(kWords, {kRows, kLength}, at::kLong);
    y = torch::randint(kWords, {kRows * kLength}, at::kLong);
  }
  Tensor x, y;
};

Tensor loss_of(Stack& model, const Tensor& x, const Batch& batch, int microbatches) {
  return nn::functional::cross_entropy(model->head(x).flatten(0, 1), batch.y) / microbatches;
}

// A place of the model, as even as may be, which with 13 layers they are not.
struct Place {
  Place(int number, int places)
      : first(kLayers * number / places),
        end(kLayers * (number + 1) / places),
        begins(number == 0),
        ends(number + 1 == places) {}
  int first, end;
  bool begins, ends;
};

Tensor run_place(Stack& model, const Place& place, const Tensor& input, const Batch& batch, int microbatches) {
  const Tensor x = model->through(place.begins ? model->words(batch.x) : input, place.first, place.end);
  return place.ends ? loss_of(model, x, batch, microbatches) : x;
}

struct Shape {
  train::PipelineSchedule schedule;
  int microbatches, chunks = 1;
};
std::vector<Shape> shapes_for(int stages) {
  return {{train::PipelineSchedule::gpipe, 5},
          {train::PipelineSchedule::one_f_one_b, 1},
          {train::PipelineSchedule::one_f_one_b, 7},
          {train::PipelineSchedule::interleaved, 2 * stages, 2},
          {train::PipelineSchedule::interleaved, stages, 3},
          {train::PipelineSchedule::zb_h1, 6}};
}

train::ModuleStage stage_of(Stack& model, tutti::Communicator& stages, int chunks, int microbatches, int replica,
                            const int& step) {
  const int rank = stages.rank(), ranks = stages.size();
  return [=, &model, &step](int microbatch, int chunk, const Tensor& input) {
    return run_place(model, Place(chunk * ranks + rank, ranks * chunks), input, Batch(replica, step, microbatch),
                     microbatches);
  };
}

// Adds gradients of all micro-batches, in one process.
double accumulate(Stack& model, int microbatches, int replica, int step) {
  double sum = 0;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    const Tensor loss = run_place(model, Place(0, 1), {}, Batch(replica, step, microbatch), microbatches);
    loss.backward();
    sum += loss.item<double>();
  }
  return sum;
}

// Parameters of this rank's places, as they are named in the model.
std::vector<std::string> names_of(tutti::Communicator& stages, int chunks) {
  std::vector<std::string> names;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Place place(chunk * stages.size() + stages.rank(), stages.size() * chunks);
    if (place.begins) names.emplace_back("words.weight");
    for (int i = place.first; i < place.end; ++i)
      for (const char* part : {"norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"})
        names.push_back("layers." + std::to_string(i) + "." + part);
    if (place.ends) names.emplace_back("head.weight");
  }
  return names;
}

void check_bits(tutti::Communicator& comm) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const Shape& shape : shapes_for(comm.size())) {
      const std::string words = std::string(name_of(shape.schedule)) + " of " + std::to_string(shape.microbatches) +
                                " in " + c10::toString(type);
      Stack model = make_model(type), whole = make_model(type);
      int step = 0;
      train::ModulePipeline pipeline(
          comm, stage_of(model, comm, shape.chunks, shape.microbatches, 0, step),
          {.schedule = shape.schedule, .microbatches = shape.microbatches, .chunks = shape.chunks});
      const bool ends = comm.rank() + 1 == comm.size();
      for (; step < 2; ++step) {
        const double evaluated = pipeline.evaluate();
        const double loss = pipeline.step();
        const double expected = ends ? accumulate(whole, shape.microbatches, 0, step) : 0;
        if (!ends) accumulate(whole, shape.microbatches, 0, step);
        expect(loss == expected, words + ": the loss", comm.rank());
        expect(evaluated == expected, words + ": the loss as it is evaluated", comm.rank());
        const auto own = model->named_parameters(), reference = whole->named_parameters();
        for (const std::string& name : names_of(comm, shape.chunks)) {
          const Tensor gradient = own[name].grad();
          expect(gradient.defined() && torch::equal(gradient, reference[name].grad()), words + ": " + name,
                 comm.rank());
        }
      }
      if (shape.schedule == train::PipelineSchedule::one_f_one_b)
        expect(
            pipeline.most_kept() == static_cast<std::size_t>(std::min(shape.microbatches, comm.size() - comm.rank())),
            words + ": what is kept", comm.rank());
    }
  }
}

// Each part of zb-h1's backward goes its own way: counted by hooks of what it comes through.
void check_parts(tutti::Communicator& comm) {
  Stack model = make_model(at::kFloat);
  int step = 0, inside = 0, weights = 0;
  const auto stage = stage_of(model, comm, 1, 4, 0, step);
  train::ModulePipeline pipeline(comm,
                                 [&](int microbatch, int chunk, const Tensor& input) {
                                   Tensor x = input;
                                   if (input.defined()) {
                                     x = input * 1;  // a node of its own, where the way to the input comes last
                                     x.register_hook([&](const Tensor& /*gradient*/) { ++inside; });
                                   }
                                   return stage(microbatch, chunk, x);
                                 },
                                 {.schedule = train::PipelineSchedule::zb_h1, .microbatches = 4});
  for (const Tensor& parameter : model->parameters())
    parameter.register_hook([&](const Tensor& /*gradient*/) { ++weights; });
  pipeline.step();
  expect(inside == (comm.rank() == 0 ? 0 : 4), "the way to the input is gone once a micro-batch", comm.rank());
  expect(weights == 4 * static_cast<int>(names_of(comm, 1).size()), "and each weight is come to once", comm.rank());
}

// The first stage looks words up in the weight that the last one ends with, and a stage uses one layer twice.
void check_shared_weights(tutti::Communicator& comm) {
  for (const train::PipelineSchedule schedule :
       {train::PipelineSchedule::one_f_one_b, train::PipelineSchedule::zb_h1}) {
    Stack model = make_model(at::kDouble, true), whole = make_model(at::kDouble, true);
    constexpr int kMicrobatches = 4;
    const auto twice = [](Stack& of, const Place& place, const Tensor& input, const Batch& batch) {
      Tensor x = of->through(place.begins ? of->words(batch.x) : input, place.first, place.end);
      x = of->through(x, place.first, place.end);
      return place.ends ? loss_of(of, x, batch, kMicrobatches) : x;
    };
    train::ModulePipeline pipeline(comm,
                                   [&](int microbatch, int /*chunk*/, const Tensor& input) {
                                     return twice(model, Place(comm.rank(), comm.size()), input,
                                                  Batch(0, 0, microbatch));
                                   },
                                   {.schedule = schedule, .microbatches = kMicrobatches});
    pipeline.step();
    pipeline.reduce_tied(model->words->weight);
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
      const Batch batch(0, 0, microbatch);
      Tensor x;
      for (int stage = 0; stage < comm.size(); ++stage) x = twice(whole, Place(stage, comm.size()), x, batch);
      x.backward();
    }
    const auto own = model->named_parameters(), reference = whole->named_parameters();
    std::vector<std::string> names = names_of(comm, 1);
    for (std::string& name : names)
      if (name == "head.weight") name = "words.weight";
    for (const std::string& name : names)
      expect(torch::allclose(own[name].grad(), reference[name].grad(), 1e-12, 1e-14),
             std::string(name_of(schedule)) + ": shared " + name, comm.rank());
  }
}

// Half of the ranks are replicas: gradients travel along dp while backward computes, and all is as without a pipeline.
void check_data_parallel(tutti::Communicator& comm) {
  if (comm.size() % 2 != 0) return;
  train::Mesh mesh(comm, {{"dp", 2}, {"pp", comm.size() / 2}});
  tutti::Communicator& stages = mesh.along("pp");
  const int replica = mesh.coordinate("dp");
  for (const Shape& shape : shapes_for(stages.size())) {
    for (const int stage : {0, 1, 2}) {
      const train::AdamW optimizer{.learning_rate = 3e-3};
      const auto trained = [&](bool by_pipeline) {
        Stack model = make_model(at::kFloat);
        const std::vector<std::string> names = names_of(stages, by_pipeline ? shape.chunks : 1);
        const auto takes = [&](const std::string& name) {
          return !by_pipeline || std::find(names.begin(), names.end(), name) != names.end();
        };
        train::StrategyOptions options;
        options.bucket_bytes = 8 << 10;
        train::ModuleStrategy strategy(mesh.along("dp"), *model, stage, optimizer, options, takes);
        strategy.set_passes(shape.microbatches);
        int step = 0;
        std::optional<train::ModulePipeline> pipeline;
        if (by_pipeline)
          pipeline.emplace(stages, stage_of(model, stages, shape.chunks, shape.microbatches, replica, step),
                           train::PipelineOptions{
                               .schedule = shape.schedule, .microbatches = shape.microbatches, .chunks = shape.chunks});
        for (; step < 3; ++step) {
          if (pipeline)
            pipeline->step();
          else
            accumulate(model, shape.microbatches, replica, step);
          strategy.step();
        }
        strategy.verify();
        return model;
      };
      const Stack piped = trained(true), whole = trained(false);
      const auto own = piped->named_parameters(), reference = whole->named_parameters();
      for (const std::string& name : names_of(stages, shape.chunks))
        expect(torch::equal(own[name], reference[name]),
               std::string(name_of(shape.schedule)) + " under stage " + std::to_string(stage) + ": " + name,
               comm.rank());
    }
  }
}

// A tied weight under a strategy is held until both ends have added theirs.
void check_held(tutti::Communicator& comm) {
  for (const int stage : {0, 2}) {
    train::Mesh mesh(comm, {{"dp", 1}, {"pp", comm.size()}});
    Stack model = make_model(at::kFloat, true), whole = make_model(at::kFloat, true);
    std::vector<std::string> names = names_of(comm, 1);
    const bool has_words = comm.rank() == 0 || comm.rank() + 1 == comm.size();
    const auto takes = [&](const std::string& name) {
      if (name == "head.weight") return false;  // as it was before it was tied
      return name == "words.weight" ? has_words : std::find(names.begin(), names.end(), name) != names.end();
    };
    train::ModuleStrategy strategy(mesh.along("dp"), *model, stage, train::Sgd{.learning_rate = 0.1}, {}, takes);
    strategy.set_passes(4);
    if (has_words) strategy.hold(model->words->weight);
    torch::optim::SGD optimizer(whole->parameters(), 0.1);
    int step = 0;
    train::ModulePipeline pipeline(comm, stage_of(model, comm, 1, 4, 0, step), {.microbatches = 4});
    for (; step < 3; ++step) {
      pipeline.step();
      pipeline.reduce_tied(model->words->weight);
      if (has_words) strategy.ready(model->words->weight);
      strategy.step();
      optimizer.zero_grad();
      accumulate(whole, 4, 0, step);
      optimizer.step();
    }
    if (has_words)
      expect(torch::allclose(model->words->weight, whole->words->weight, 1e-4, 1e-6), "a tied weight", comm.rank());
  }
}

void check_mistakes(tutti::Communicator& comm) {
  const auto says = [&](const std::string& words, const std::string& part) {
    job_checks::says(words, part, comm.rank());
  };
  const auto fails = [&](const train::ModuleStage& stage) {
    train::ModulePipeline pipeline(comm, stage, {.microbatches = 2});
    return words_of([&] { pipeline.step(); });
  };
  Stack model = make_model(at::kFloat);
  int step = 0;
  const auto stage = stage_of(model, comm, 1, 2, 0, step);
  says(fails([&](int microbatch, int chunk, const Tensor& input) {
         const Tensor output = stage(microbatch, chunk, input);
         return comm.rank() + 1 == comm.size() ? output.expand({2}) : output;
       }),
       "the last place of the model returned 2 numbers; it returns its loss, one number");
  if (comm.size() > 1) {
    says(fails([&](int microbatch, int chunk, const Tensor& input) {
           const Tensor output = stage(microbatch, chunk, input);
           return comm.rank() == 0 ? output.to(at::kLong) : output;
         }),
         "rank 0: stage 0: forward of micro-batch 0: a stage made a tensor of type Long, which has no gradient");
  }
  train::ModuleStrategy strategy(comm, *model, 0, train::Sgd{});
  says(words_of([&] { strategy.set_passes(0); }), "a step has one backward pass at least");
  says(words_of([&] { strategy.ready(model->words->weight); }), "which nobody holds; call hold() before");
  says(words_of([&] { strategy.hold(torch::ones({2})); }), "none of the module's parameters");
}

}  // namespace

int main() {
  return job_checks::run(check_bits, check_parts, check_shared_weights, check_data_parallel, check_held,
                         check_mistakes);
}
