// tutti/train/torch.h on every rank of a job: modules train as with average_gradients and an optimizer of libtorch, all
// stages to the same bits; accumulation, zero_grad() to none, unused parameters, and what is left when a strategy goes.
#include <torch/torch.h>
#include <tutti/train/local_updates.h>
#include <tutti/train/torch.h>

#include <span>
#include <tutti/tutti.hpp>

#include "torch/job_checks.h"

namespace {

using torch::Tensor;
namespace train = tutti::train;
using job_checks::expect;
using job_checks::words_of;

torch::nn::Sequential make_model() {
  torch::manual_seed(5);
  return torch::nn::Sequential(torch::nn::Linear(20, 64), torch::nn::Tanh(), torch::nn::Linear(64, 33),
                               torch::nn::ReLU(), torch::nn::Linear(33, 7));
}

// The loss of this rank's examples of a step.
Tensor loss_of(torch::nn::Sequential& model, int rank, int step) {
  torch::manual_seed(1000 + 10 * step + rank);
  const Tensor x = torch::randn({16, 20}), y = torch::randint(7, {16}, at::kLong);
  return torch::nn::functional::cross_entropy(model->forward(x), y);
}

std::vector<Tensor> values_of(const torch::nn::Sequential& model) {
  std::vector<Tensor> values;
  for (const Tensor& parameter : model->parameters()) values.push_back(parameter.detach().clone());
  return values;
}

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b, bool bits) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = bits ? torch::equal(a[i], b[i]) : torch::allclose(a[i], b[i], 1e-4, 1e-5);
  return same;
}

constexpr int kSteps = 8;

// As people do it by hand.
std::vector<Tensor> by_hand(tutti::Communicator& comm) {
  torch::nn::Sequential model = make_model();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(model, comm.rank(), step).backward();
    tutti::average_gradients(comm, *model);
    optimizer.step();
  }
  return values_of(model);
}

std::vector<Tensor> by_strategy(tutti::Communicator& comm, int stage, bool zero_grad) {
  torch::nn::Sequential model = make_model();
  {
    train::StrategyOptions options;
    options.bucket_bytes = 8 << 10;
    train::ModuleStrategy strategy(comm, *model, stage, train::Sgd{.learning_rate = 0.1, .momentum = 0.9}, options);
    for (int step = 0; step < kSteps; ++step) {
      if (zero_grad) model->zero_grad();  // to none: the views are lost, and come back
      loss_of(model, comm.rank(), step).backward();
      strategy.step();
    }
    strategy.verify();
    expect(strategy.report().timeline.size() > 1, "several buckets", comm.rank());
  }
  // The module outlives its strategy, and can be used.
  loss_of(model, comm.rank(), 0).backward();
  return values_of(model);
}

void check_training(tutti::Communicator& comm) {
  const std::vector<Tensor> reference = by_hand(comm);
  const std::vector<Tensor> data_parallel = by_strategy(comm, 0, false);
  expect(equal(data_parallel, reference, false), "data parallel trains as by hand", comm.rank());
  for (const int stage : {0, 1, 2})
    for (const bool zero_grad : {false, true})
      expect(equal(by_strategy(comm, stage, zero_grad), data_parallel, true),
             "stage " + std::to_string(stage) + " has the same bits", comm.rank());
}

// Two micro-batches, one exchange: the sum of both losses' gradients. Where autograd makes a graph
// of gradients it does not add to them in place.
void check_accumulation(tutti::Communicator& comm) {
  std::vector<Tensor> results[4];
  for (const int run : {0, 1, 2, 3}) {
    const int stage = run % 3;
    torch::nn::Sequential model = make_model();
    train::ModuleStrategy strategy(comm, *model, stage, train::Sgd{.learning_rate = 0.1});
    for (int step = 0; step < 3; ++step) {
      {
        const train::NoSync pause = strategy.no_sync();
        loss_of(model, comm.rank(), 2 * step).backward();
      }
      loss_of(model, comm.rank(), 2 * step + 1).backward({}, /*retain_graph=*/{}, /*create_graph=*/run == 3);
      strategy.step();
    }
    results[run] = values_of(model);
  }
  torch::nn::Sequential model = make_model();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (const int micro : {0, 1}) loss_of(model, comm.rank(), 2 * step + micro).backward();
    tutti::average_gradients(comm, *model);
    optimizer.step();
  }
  expect(equal(results[0], values_of(model), false), "accumulated as by hand", comm.rank());
  for (const int run : {1, 2, 3}) expect(equal(results[run], results[0], false), "accumulated alike", comm.rank());
}

// All ranks use the second layer in the first step, rank 0 in the second, nobody in the third.
void check_unused(tutti::Communicator& comm) {
  constexpr double kRate = 0.5;
  for (const int stage : {0, 1, 2}) {
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(3, 4));
    train::StrategyOptions options;
    options.unused_parameters = true;
    train::ModuleStrategy strategy(comm, *model, stage, train::Sgd{.learning_rate = kRate}, options);
    const auto step = [&](bool both) {
      const Tensor x = torch::ones({1, 3});
      Tensor loss = model[0]->as<torch::nn::Linear>()->forward(x).sum();
      if (both) loss = loss + model[1]->as<torch::nn::Linear>()->forward(x).sum();
      loss.backward();
      strategy.step();
      return model[1]->as<torch::nn::Linear>()->bias.detach().clone();
    };
    const Tensor first = step(true), second = step(comm.rank() == 0), third = step(false);
    const std::string words = "stage " + std::to_string(stage) + ": a gradient ";
    expect(torch::allclose(first - second, torch::full({4}, kRate / comm.size())), words + "of rank 0", comm.rank());
    expect(torch::equal(second, third), words + "of nobody", comm.rank());
  }
}

// Replicas that exchange in every step, with an outer rate of 1 and no momentum, average parameters.
void check_local_updates(tutti::Communicator& comm) {
  const int site_ranks = comm.size() % 2 == 0 ? 2 : 1;
  for (const int stage : {0, 1, 2}) {
    train::Replicas replicas = train::make_replicas(comm, site_ranks);
    torch::nn::Sequential model = make_model(), by_hand = make_model();
    train::ModuleStrategy strategy(replicas.inside, *model, stage, train::Sgd{.learning_rate = 0.1});
    train::LocalUpdates local(replicas, strategy.strategy(), {.every = 1, .learning_rate = 1, .momentum = 0});
    torch::optim::SGD optimizer(by_hand->parameters(), 0.1);
    for (int step = 0; step < kSteps; ++step) {
      loss_of(model, comm.rank(), step).backward();
      expect(strategy.step(local).merged == 1, "an exchange in every step", comm.rank());
      optimizer.zero_grad();
      loss_of(by_hand, comm.rank(), step).backward();
      tutti::average_gradients(replicas.inside, *by_hand);
      optimizer.step();
      const torch::NoGradGuard quiet;
      for (Tensor& parameter : by_hand->parameters())
        replicas.between.all_reduce(std::span(parameter.data_ptr<float>(), static_cast<std::size_t>(parameter.numel())),
                                    tutti::ReduceOp::average);
    }
    expect(equal(values_of(model), values_of(by_hand), false), "parameters are averaged", comm.rank());
    local.finish();
    local.verify();
    torch::nn::Sequential other = make_model();
    train::ModuleStrategy stranger(replicas.inside, *other, stage, train::Sgd{});
    job_checks::says(words_of([&] { stranger.step(local); }), "local updates of another strategy", comm.rank());
  }
}

void check_mistakes(tutti::Communicator& comm) {
  const auto says = [&](const std::string& words, const std::string& part) {
    job_checks::says(words, part, comm.rank());
  };
  torch::nn::Sequential model = make_model();
  says(words_of([&] { train::ModuleStrategy(comm, *model, 4, train::Sgd{}); }), "stage 4 is not one of 0");
  torch::nn::Linear doubles(torch::nn::Linear(2, 2));
  doubles->to(at::kDouble);
  says(words_of([&] { train::ModuleStrategy(comm, *doubles, 0, train::Sgd{}); }), "only float32, bfloat16 and float16");
  train::ModuleStrategy strategy(comm, *model, 0, train::Sgd{});
  loss_of(model, comm.rank(), 0).backward();
  says(words_of([&] { loss_of(model, comm.rank(), 0).backward(); }), "ready() came twice in one step");
}

// A gradient that is held may be of any shape: nothing of one that is not the parameter's is read.
void check_other_gradients(tutti::Communicator& comm) {
  for (const int stage : {0, 2}) {
    torch::nn::Sequential model = make_model();
    train::ModuleStrategy strategy(comm, *model, stage, train::Sgd{.learning_rate = 1});
    const std::vector<Tensor> before = values_of(model);
    const Tensor weight = model->parameters()[0];
    strategy.hold(weight);
    loss_of(model, comm.rank(), 0).backward();
    const auto refused = [&](const Tensor& gradient, const std::string& words) {
      weight.mutable_grad() = gradient;
      job_checks::says(words_of([&] { strategy.ready(weight); }), words, comm.rank());
      expect(strategy.strategy().gradient_as<float>(0)[0] == 0, "nothing was taken of it", comm.rank());
    };
    const std::string name = "rank " + std::to_string(comm.rank()) + ", parameter \"0.weight\": ";
    refused(torch::ones({1, 2}),
            name + "its shape was [64, 20] when the strategy was made and its gradient's is [1, 2]");
    refused(torch::ones({64, 20}, at::kDouble), name + "its type is float32 and its gradient's float64");
    weight.mutable_grad() = torch::ones({64, 20});
    strategy.ready(weight);
    strategy.step();
    expect(torch::equal(weight, before[0] - 1), "the right one is taken", comm.rank());
  }
}

}  // namespace

int main() {
  return job_checks::run(check_training, check_accumulation, check_unused, check_local_updates, check_mistakes,
                         check_other_gradients);
}
