// Stage 3 of ZeRO over libtorch modules, on every rank of a job: to the bits of data parallel over 50 steps, in float32
// and bfloat16, with clipping; calls, bytes and memory by their formulas; units with several inputs and outputs, inside
// of others, used twice; what is there outside of units, and mistakes.
#include <torch/torch.h>
#include <tutti/train/torch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <tutti/tutti.hpp>
#include <vector>

#include "torch/job_checks.h"

namespace {

namespace nn = torch::nn;
namespace train = tutti::train;
using job_checks::expect;
using job_checks::words_of;
using torch::Tensor;

constexpr std::int64_t kWords = 50, kWidth = 24, kLength = 6;
constexpr std::size_t kLayers = 5;

struct LayerImpl : nn::Module {
  explicit LayerImpl(std::int64_t width) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
    up = register_module("up", nn::Linear(width, 3 * width));
    down = register_module("down", nn::Linear(3 * width, width));
  }
  Tensor forward(const Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Layer);

// A row of layers, as most models are.
struct StackImpl : nn::Module {
  StackImpl() {
    words = register_module("words", nn::Embedding(kWords, kWidth));
    layers = register_module("layers", nn::Sequential());
    for (std::size_t i = 0; i < kLayers; ++i) layers->push_back(train::Unit<Layer>(kWidth));
    head = register_module("head", nn::Linear(kWidth, kWords));
  }
  Tensor forward(const Tensor& text) { return head(layers->forward(words(text))); }
  nn::Embedding words{nullptr};
  nn::Sequential layers{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Stack);

struct MixerImpl : nn::Module {
  MixerImpl() { both = register_module("both", nn::Linear(kWidth, kWidth)); }
  std::tuple<Tensor, Tensor> forward(const Tensor& a, std::optional<Tensor> b, double share) {
    return {both(a) * share + *b, torch::tanh(both(*b))};
  }
  nn::Linear both{nullptr};
};
TORCH_MODULE(Mixer);

// What else may be: two inputs and outputs, one unit inside another, one that is used twice, one whose input has no
// gradient, one without parameters.
struct MazeImpl : nn::Module {
  MazeImpl() {
    words = register_module("words", train::Unit<nn::Embedding>(kWords, kWidth));
    twice = register_module("twice", train::Unit<nn::Linear>(kWidth, kWidth));
    mixer = register_module("mixer", train::Unit<Mixer>());
    outer = register_module("outer", train::Unit<nn::Sequential>(nn::Linear(kWidth, kWidth), train::Unit<nn::Tanh>(),
                                                                 train::Unit<Layer>(kWidth)));
    head = register_module("head", nn::Linear(kWidth, kWords));
  }
  Tensor forward(const Tensor& text) {
    const Tensor x = words(text);
    auto [a, b] = mixer(twice(x), x, 0.5);
    a.mul_(2);  // what comes out of a unit may be changed in place
    return head(outer->forward(twice(torch::relu(a)) + b));
  }
  train::Unit<nn::Embedding> words{nullptr};
  train::Unit<nn::Linear> twice{nullptr};
  train::Unit<Mixer> mixer{nullptr};
  train::Unit<nn::Sequential> outer{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Maze);

template <class Model>
Model make_model(at::ScalarType type) {
  torch::manual_seed(5);
  Model model;
  model->to(type);
  return model;
}

// The loss of this rank's examples of a step.
template <class Model>
Tensor loss_of(Model& model, int rank, int step) {
  torch::manual_seed(1000 + 10 * step + rank);
  const Tensor x = torch::randint(kWords, {8, kLength}, at::kLong),
               y = torch::randint(kWords, {8 * kLength}, at::kLong);
  return nn::functional::cross_entropy(model->forward(x).flatten(0, 1).to(at::kFloat), y);
}

template <class Model>
std::vector<Tensor> values_of(const Model& model) {
  std::vector<Tensor> values;
  for (const Tensor& parameter : model->parameters()) values.push_back(parameter.detach().clone());
  return values;
}

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& left, const Tensor& right) { return torch::equal(left, right); });
}

template <class Model>
std::int64_t elements_of(const Model& model) {
  std::int64_t elements = 0;
  for (const Tensor& parameter : model->parameters()) elements += parameter.numel();
  return elements;
}

constexpr train::AdamW kAdamW{.learning_rate = 3e-3};
constexpr double kClipNorm = 0.1;

train::StrategyOptions clipped() {
  train::StrategyOptions options;
  options.clip_norm = kClipNorm;
  return options;
}

template <class Model>
std::vector<Tensor> trained(tutti::Communicator& comm, int stage, int steps, at::ScalarType type) {
  Model model = make_model<Model>(type);
  train::ModuleStrategy strategy(comm, *model, stage, kAdamW, clipped());
  for (int step = 0; step < steps; ++step) {
    loss_of(model, comm.rank(), step).backward();
    expect(strategy.step().gradient_norm > kClipNorm, "the norm is clipped", comm.rank());
  }
  strategy.verify();
  if (stage == 3) expect(elements_of(model) == 0, "no values outside of units", comm.rank());
  strategy.finish();
  loss_of(model, comm.rank(), 0).backward();  // the module can be used without the strategy
  return values_of(model);
}

void check_bits(tutti::Communicator& comm) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::string words = std::string("stage 3 has the bits of data parallel, in ") + c10::toString(type);
    expect(equal(trained<train::Unit<Stack>>(comm, 3, 50, type), trained<Stack>(comm, 0, 50, type)), words,
           comm.rank());
    expect(equal(trained<train::Unit<Maze>>(comm, 3, 10, type), trained<Maze>(comm, 0, 10, type)),
           words + ", in a maze", comm.rank());
  }
}

// n layers in a model with room for k units: the model's own are held, so that 2n - (k - 1) layers are gathered.
void check_formulas(tutti::Communicator& comm) {
  for (const std::size_t limit : {2, 3, 9}) {
    auto model = make_model<train::Unit<Stack>>(at::kBFloat16);
    const std::int64_t elements = elements_of(model);
    train::StrategyOptions options = clipped();
    options.gathered_units = limit;
    train::ModuleStrategy strategy(comm, *model, 3, kAdamW, options);
    constexpr int kSteps = 4;
    for (int step = 0; step < kSteps; ++step) {
      loss_of(model, comm.rank(), step).backward();
      strategy.step();
    }
    const train::Report report = strategy.report();
    const tutti::Counters counted = strategy.counters();
    for (std::size_t v = 0; v < tutti::kVerbs; ++v) {
      const auto verb = static_cast<tutti::Verb>(v);
      const train::Spoken once = spoken(report.once, verb), each = spoken(report.each_step, verb);
      expect(counted[verb].calls == once.calls + kSteps * each.calls, "calls as the sentence says", comm.rank());
      expect(counted[verb].bytes == once.bytes + kSteps * each.bytes, "bytes as the sentence says", comm.rank());
    }
    expect(spoken(report.each_step, tutti::Verb::reduce_scatter).calls == kLayers + 1, "a bucket a unit", comm.rank());
    expect(spoken(report.each_step, tutti::Verb::all_gather).calls == 1 + 2 * kLayers - std::min(kLayers, limit - 1),
           "gathers with room for " + std::to_string(limit), comm.rank());

    const auto ranks = static_cast<std::uint64_t>(comm.size());
    expect(report.bytes.elements == static_cast<std::uint64_t>(elements), "numbers of the model", comm.rank());
    expect(report.bytes.total() == 16 * (report.bytes.elements + report.bytes.padding) / ranks,
           "16 bytes a number over ranks", comm.rank());
    // Blocks of 1024 numbers to each rank: of a unit less than one for each parameter, and one for each rank.
    expect(report.bytes.padding < 1024 * (model->parameters().size() + (kLayers + 1) * ranks), "padding", comm.rank());
  }
}

// Passes without gradients between steps, two micro-batches in a step, rank 0's values at the beginning.
void check_use(tutti::Communicator& comm) {
  std::vector<Tensor> results[2];
  for (const int stage : {0, 3}) {
    torch::manual_seed(stage == 3 ? comm.rank() : 0);
    train::Unit<Stack> model;
    train::ModuleStrategy strategy(comm, *model, stage, kAdamW);
    for (int step = 0; step < 4; ++step) {
      {
        const train::NoSync pause = strategy.no_sync();
        loss_of(model, comm.rank(), 2 * step).backward();
      }
      loss_of(model, comm.rank(), 2 * step + 1).backward();
      strategy.step();
      model->zero_grad();
      const at::NoGradGuard quiet;
      results[stage / 3].push_back(loss_of(model, 0, 100));
    }
    strategy.finish();
    for (const Tensor& value : values_of(model)) results[stage / 3].push_back(value);
  }
  expect(equal(results[0], results[1]), "evaluated and accumulated alike", comm.rank());
}

// A rank whose examples have run out only calls step().
void check_uneven(tutti::Communicator& comm) {
  std::vector<Tensor> results[2];
  for (const int stage : {0, 3}) {
    auto model = make_model<train::Unit<Stack>>(at::kFloat);
    train::ModuleStrategy strategy(comm, *model, stage, kAdamW);
    for (int step = 0; step < 4; ++step) {
      const bool has_examples = step <= comm.rank() + 1;
      if (strategy.weight(has_examples ? 8 : 0) == 0) break;
      if (has_examples) loss_of(model, comm.rank(), step).backward();
      strategy.step();
    }
    strategy.finish();
    results[stage / 3] = values_of(model);
  }
  expect(equal(results[0], results[1]), "uneven batches alike", comm.rank());
}

void check_mistakes(tutti::Communicator& comm) {
  const auto says = [&](const std::string& words, const std::string& part) {
    job_checks::says(words, part, comm.rank());
  };
  Stack bare;
  says(words_of([&] { train::ModuleStrategy(comm, *bare, 3, kAdamW); }),
       "parameter \"words.weight\" is in none; make every layer a train::Unit");
  train::Unit<Stack> tied;
  auto& layers = *tied->layers;
  layers[0]->as<LayerImpl>()->up->weight = layers[1]->as<LayerImpl>()->up->weight;
  layers[0]->as<LayerImpl>()->up->register_parameter("shared", layers[1]->as<LayerImpl>()->up->weight);
  says(words_of([&] { train::ModuleStrategy(comm, *tied, 3, kAdamW); }), "two units share the weight");

  train::StrategyOptions narrow;
  narrow.gathered_units = 1;
  train::Unit<Stack> model;
  train::ModuleStrategy strategy(comm, *model, 3, kAdamW, narrow);
  says(words_of([&] { loss_of(model, comm.rank(), 0); }), "1 units are in use, as many as gathered_units allows");

  train::Unit<Stack> done;
  train::ModuleStrategy finished(comm, *done, 3, kAdamW);
  const Tensor loss = loss_of(done, comm.rank(), 0);
  finished.finish();
  says(words_of([&] { loss.backward(); }), "backward of a pass from before finish(); its values are gone");
}

}  // namespace

int main() { return job_checks::run(check_bits, check_formulas, check_use, check_uneven, check_mistakes); }
