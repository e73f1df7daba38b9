// The GPT of the examples cut over meshes of all ranks of a job, against the same in one process: by plain gradient
// descent in both types, under every strategy with a clip that bites, and the bytes of a step against their formulas.
#include <torch/torch.h>
#include <tutti/train/mesh.h>
#include <tutti/train/torch.h>
#include <tutti/train/torch_tensor_parallel.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tutti/tutti.hpp>
#include <vector>

#include "gpt_model.h"
#include "torch/job_checks.h"

namespace {

namespace train = tutti::train;
using examples::Gpt;
using examples::GptShape;
using job_checks::expect;
using job_checks::words_of;
using torch::Tensor;
using train::Crossing;

using Losses = std::vector<double>;
constexpr int kSteps = 20;
constexpr std::int64_t kExamples = 2;  // of each rank of dp

// Examples [first, first + count) of a step: characters and what follows each.
std::pair<Tensor, Tensor> batch_of(const GptShape& shape, int step, std::int64_t first, std::int64_t count) {
  std::vector<Tensor> texts;
  for (std::int64_t i = first; i < first + count; ++i) {
    torch::manual_seed(1000 * step + i);
    texts.push_back(torch::randint(examples::kCharacters, {shape.context + 1}, at::kLong));
  }
  const Tensor text = torch::stack(texts);
  return {text.slice(1, 0, shape.context), text.slice(1, 1)};
}

train::Unit<Gpt> make_model(const GptShape& shape, const train::TensorRanks& tp) {
  torch::manual_seed(7);
  return train::Unit<Gpt>(shape, tp);
}

double mean_over(tutti::Communicator& dp, const Tensor& loss) {
  double value = loss.item<double>();
  dp.all_reduce(tutti::one(value), tutti::ReduceOp::average);
  return value;
}

Losses by_descent(tutti::Communicator& dp, const train::TensorRanks& tp, const GptShape& shape, std::int64_t examples,
                  at::ScalarType type) {
  train::Unit<Gpt> model = make_model(shape, tp);
  model->to(type);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Losses losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto [x, y] = batch_of(shape, step, dp.rank() * examples, examples);
    optimizer.zero_grad();
    const Tensor loss = model->forward(x, y);
    loss.backward();
    tutti::average_gradients(dp, *model);
    optimizer.step();
    losses.push_back(mean_over(dp, loss));
  }
  return losses;
}

Losses by_strategy(tutti::Communicator& dp, const train::TensorRanks& tp, const GptShape& shape, std::int64_t examples,
                   int stage, std::vector<double>& norms) {
  train::Unit<Gpt> model = make_model(shape, tp);
  train::StrategyOptions options;
  options.clip_norm = 0.5;
  train::ModuleStrategy strategy(dp, *model, stage, train::Sgd{.learning_rate = 0.1}, options);
  Losses losses;
  norms.clear();
  for (int step = 0; step < kSteps; ++step) {
    const auto [x, y] = batch_of(shape, step, dp.rank() * examples, examples);
    const Tensor loss = model->forward(x, y);
    loss.backward();
    norms.push_back(strategy.step().gradient_norm);
    losses.push_back(mean_over(dp, loss));
  }
  strategy.verify();
  return losses;
}

// The largest relative difference; 1 where there is no saying.
double apart(const Losses& a, const Losses& b) {
  double most = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::isfinite(a[i]) && std::isfinite(b[i]) ? std::abs(a[i] - b[i]) / std::abs(b[i]) : 1);
  return most;
}

void expect_near(const Losses& losses, const Losses& right, double most, const std::string& words, int rank) {
  const double difference = apart(losses, right);
  char number[32];
  std::snprintf(number, sizeof number, "%.2g", difference);
  expect(difference <= most, words + ": losses differ by " + number + " from those of one process", rank);
}

void check_bytes(tutti::Communicator& comm, const train::TensorRanks& tp, const GptShape& shape,
                 const std::string& words) {
  train::Unit<Gpt> model = make_model(shape, tp);
  const auto [x, y] = batch_of(shape, 0, 0, kExamples);
  const tutti::Counters before = tp->counters();
  model->forward(x, y).backward();
  const tutti::Counters after = tp->counters();
  const train::Sentence said = train::tensor_parallel_sentence({.ranks = tp->size(),
                                                                .layers = static_cast<int>(shape.layers),
                                                                .tokens = static_cast<std::uint64_t>(x.numel()),
                                                                .width = static_cast<std::uint64_t>(shape.width),
                                                                .places = static_cast<std::uint64_t>(shape.context),
                                                                .sequence = shape.sequence});
  for (const tutti::Verb verb : {tutti::Verb::all_reduce, tutti::Verb::all_gather, tutti::Verb::reduce_scatter}) {
    const train::Spoken counted{after[verb].calls - before[verb].calls, after[verb].bytes - before[verb].bytes};
    const train::Spoken formula = spoken(said, verb);
    expect(counted == formula,
           words + ": " + std::string(name_of(verb)) + " was called " + std::to_string(counted.calls) + " times with " +
               std::to_string(counted.bytes) + " bytes, by formula " + std::to_string(formula.calls) + " times with " +
               std::to_string(formula.bytes),
           comm.rank());
  }
}

// All meshes of two axes that these ranks make, each with a model by chance.
void check_meshes(tutti::Communicator& comm) {
  tutti::Communicator self = comm.self();
  const auto alone = std::make_shared<train::TensorParallel>(self);
  std::mt19937 random(static_cast<unsigned>(comm.size()));
  for (int cut = 1; cut <= comm.size(); ++cut) {
    if (comm.size() % cut != 0) continue;
    train::Mesh mesh(comm, {{"dp", comm.size() / cut}, {"tp", cut}});
    tutti::Communicator& dp = mesh.along("dp");
    const auto tp = std::make_shared<train::TensorParallel>(mesh.along("tp"));
    GptShape shape{.layers = 1 + static_cast<std::int64_t>(random() % 2),
                   .width = 0,
                   .heads = cut * (cut < 3 ? 2 : 1),
                   .context = cut * (1 + static_cast<std::int64_t>(random() % 3))};
    // A norm of few numbers is steep, and steps along it part from each other whatever computes them.
    shape.width = shape.heads * (4 + static_cast<std::int64_t>(random() % 3));
    const std::int64_t all = kExamples * dp.size();
    const Losses doubles = by_descent(self, alone, shape, all, at::kDouble);
    const Losses floats = by_descent(self, alone, shape, all, at::kFloat);
    std::vector<double> norms, right_norms;
    const Losses clipped = by_strategy(self, alone, shape, all, 0, right_norms);
    expect(right_norms[0] > 0.5, "the clip bites", comm.rank());
    for (const bool sequence : {false, true}) {
      shape.sequence = sequence;
      shape.pieces = sequence ? 1 : 1 + static_cast<std::int64_t>(random() % 3);
      const std::string words = to_text(mesh.axes()) + (sequence ? " with tokens cut" : "") + ", " +
                                std::to_string(shape.heads) + " heads, width " + std::to_string(shape.width);
      expect_near(by_descent(dp, tp, shape, kExamples, at::kDouble), doubles, 1e-12, words + ", float64", comm.rank());
      expect_near(by_descent(dp, tp, shape, kExamples, at::kFloat), floats, 1e-5, words + ", float32", comm.rank());
      const int stage = static_cast<int>(random() % 4);
      const std::string strategy = words + ", stage " + std::to_string(stage);
      expect_near(by_strategy(dp, tp, shape, kExamples, stage, norms), clipped, 1e-5, strategy, comm.rank());
      expect(apart(norms, right_norms) < 1e-4, strategy + ": the norm is that of the whole", comm.rank());
      shape.pieces = 1;
      check_bytes(comm, tp, shape, words);
    }
  }
}

// Every crossing and its backward, along both dimensions, by definition: the gradient of sum(weights * output).
void check_crossings(tutti::Communicator& comm) {
  const auto tp = std::make_shared<train::TensorParallel>(comm);
  const std::int64_t ranks = comm.size(), rank = comm.rank();
  const auto own = [&](const Tensor& whole, std::int64_t dimension) {
    return whole.chunk(ranks, dimension)[static_cast<std::size_t>(rank)];
  };
  for (const std::int64_t dimension : {0, 1, -1}) {
    torch::manual_seed(3);
    const Tensor whole = torch::randn({2 * ranks, 3 * ranks}, at::kDouble), weights = torch::randn_like(whole);
    Tensor x = own(whole, dimension).clone().requires_grad_();
    (train::cross(tp, Crossing::gather, x, dimension) * weights).sum().backward();
    expect(torch::equal(x.grad(), own(weights, dimension)), "gather and its backward", comm.rank());
    x = own(whole, dimension).clone().requires_grad_();
    (train::cross(tp, Crossing::gather_sequence, x, dimension) * weights).sum().backward();
    expect(torch::allclose(x.grad(), ranks * own(weights, dimension)), "gather_sequence and its backward", comm.rank());
    x = whole.clone().requires_grad_();
    (train::cross(tp, Crossing::scatter, x, dimension) * own(weights, dimension)).sum().backward();
    expect(torch::equal(x.grad(), weights), "scatter and its backward", comm.rank());
    x = whole.clone().requires_grad_();
    const Tensor part = train::cross(tp, Crossing::reduce_scatter_sequence, x, dimension);
    expect(torch::allclose(part, ranks * own(whole, dimension)), "reduce_scatter_sequence", comm.rank());
    (part * own(weights, dimension)).sum().backward();
    expect(torch::equal(x.grad(), weights), "reduce_scatter_sequence's backward", comm.rank());
  }
  Tensor x = torch::ones({5}, at::kDouble).requires_grad_();
  (train::cross(tp, Crossing::copy, x) * static_cast<double>(rank + 1)).sum().backward();
  expect(torch::equal(x.grad(), torch::full({5}, ranks * (ranks + 1) / 2.0, at::kDouble)), "copy", comm.rank());
  x = torch::ones({5}, at::kDouble).requires_grad_();
  const Tensor sum = train::cross(tp, Crossing::reduce, x);
  sum.sum().backward();
  expect(torch::equal(sum, torch::full({5}, static_cast<double>(ranks), at::kDouble)), "reduce", comm.rank());
  expect(torch::equal(x.grad(), torch::ones({5}, at::kDouble)), "reduce's backward", comm.rank());
}

void check_mistakes(tutti::Communicator& comm) {
  if (comm.size() != 2) return;
  const auto tp = std::make_shared<train::TensorParallel>(comm);
  const auto says = [&](const std::string& words, const std::string& part) {
    job_checks::says(words, part, comm.rank());
  };
  says(words_of([&] { train::ColumnParallelLinear(tp, torch::nn::Linear(4, 7)); }),
       "axis \"tp\" of 2 ranks cannot cut the outputs of a product cut by columns, 7, evenly");
  says(words_of([&] { train::RowParallelLinear(tp, torch::nn::Linear(7, 4)); }),
       "cannot cut the inputs of a product cut by rows, 7, evenly");
  says(words_of([&] { make_model({.width = 6, .heads = 3}, tp); }), "cannot cut the heads of attention, 3, evenly");
  says(words_of([&] { train::VocabularyParallelEmbedding(tp, torch::nn::Embedding(1, 4)); }),
       "cannot cut a vocabulary of 1; every rank needs some of it");
  says(words_of([&] { train::own_tokens(tp, torch::zeros({3, 4})); }), "cannot cut the tokens of a batch, 3, evenly");
  says(words_of([&] {
         train::vocabulary_cross_entropy(tp, torch::zeros({3, 4}), torch::zeros({3}, at::kLong), 12);
       }),
       "of a vocabulary of 12 this rank of axis \"tp\" has 6 columns, and logits have 4");
  // What all ranks hold alike, and no longer do.
  train::Unit<Gpt> model = make_model({.layers = 1, .width = 8, .heads = 2, .context = 4}, tp);
  tutti::Communicator self = comm.self();
  train::ModuleStrategy strategy(self, *model, 0, train::Sgd{});
  strategy.verify();
  {
    const torch::NoGradGuard quiet;
    if (comm.rank() == 1) model->last->bias.add_(1);
  }
  says(words_of([&] { strategy.verify(); }, tutti::ErrorCode::mismatch), "rank 1 has other values of \"last.bias\"");
}

}  // namespace

int main() { return job_checks::run(check_crossings, check_meshes, check_mistakes); }
