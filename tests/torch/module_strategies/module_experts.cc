// tutti/train/torch_experts.h on every rank of a job: results and gradients of the dense computation, with drops and
// without, in several types; the balance loss, bytes by formula, ranks without tokens, data parallel beside it.
#include <torch/torch.h>
#include <tutti/train/mesh.h>
#include <tutti/train/torch.h>
#include <tutti/train/torch_experts.h>

#include <cstdint>
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

constexpr std::int64_t kWidth = 12;
constexpr int kExperts = 12;  // over 1, 2, 3 and 4 ranks

struct FeedImpl : nn::Module {
  FeedImpl() {
    up = register_module("up", nn::Linear(kWidth, 2 * kWidth));
    down = register_module("down", nn::Linear(2 * kWidth, kWidth));
  }
  Tensor forward(const Tensor& x) { return down(torch::gelu(up(x))); }
  nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Feed);

struct NetImpl : nn::Module {
  NetImpl(tutti::Communicator& axis, const train::MixtureOptions& options) {
    in = register_module("in", nn::Linear(kWidth, kWidth));
    mixture = register_module("mixture", train::Mixture<Feed>(axis, kWidth, options, [](int) { return Feed(); }));
    out = register_module("out", nn::Linear(kWidth, 1));
  }
  Tensor forward(const Tensor& x) {
    const Tensor hidden = torch::tanh(in(x));
    return out(hidden + mixture(hidden)).pow(2).mean();
  }
  nn::Linear in{nullptr}, out{nullptr};
  train::Mixture<Feed> mixture{nullptr};
};
TORCH_MODULE(Net);

Net make_net(tutti::Communicator& axis, const train::MixtureOptions& options, at::ScalarType type) {
  torch::manual_seed(3);
  Net net(axis, options);
  net->to(type);
  return net;
}

Tensor tokens_of(int rank, int step, at::ScalarType type) {
  torch::manual_seed(100 * step + rank);
  return torch::randn({2, 5 + rank, kWidth}, at::kDouble).to(type);
}

double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 5e-2; }

bool close(const Tensor& a, const Tensor& b, at::ScalarType type) {
  return torch::allclose(a, b, tolerance(type), tolerance(type));
}

// One process that has all experts, and the tokens of every rank one after the other: their mean loss.
void compare_with_dense(tutti::Communicator& comm, tutti::Communicator& self, const train::MixtureOptions& options,
                        at::ScalarType type) {
  const std::string words = "top " + std::to_string(options.top_k) + " in " + c10::toString(type);
  train::MixtureOptions of_dense = options;
  of_dense.balance /= comm.size();  // it joins every backward as it is, and these are of a share of the loss
  Net net = make_net(comm, options, type), dense = make_net(self, of_dense, type);
  Tensor own = tokens_of(comm.rank(), 0, type).set_requires_grad(true);
  const Tensor loss = net->forward(own);
  loss.backward();
  const train::ExpertStatistics found = statistics(comm, net->mixture->routing());
  tutti::average_gradients(comm, *net->in);
  tutti::average_gradients(comm, *net->out);
  tutti::average_gradients(comm, *net->mixture->router);

  std::vector<std::uint64_t> load(kExperts);
  for (int rank = 0; rank < comm.size(); ++rank) {
    Tensor x = tokens_of(rank, 0, type).set_requires_grad(true);
    const Tensor expected = dense->forward(x);
    (expected / comm.size()).backward();
    for (std::size_t e = 0; e < load.size(); ++e) load[e] += dense->mixture->routing().load[e];
    if (rank != comm.rank()) continue;
    expect(close(loss, expected, type), words + ": the result", comm.rank());
    expect(close(own.grad(), x.grad() * comm.size(), type), words + ": the gradient of tokens", comm.rank());
    expect(net->mixture->routing().kept == dense->mixture->routing().kept, words + ": who is dropped", comm.rank());
    expect(options.capacity_factor.has_value() == (net->mixture->routing().dropped() > 0),
           words + ": with a capacity something is dropped", comm.rank());
  }
  expect(found.load == load, words + ": the load", comm.rank());
  const auto expected = dense->named_parameters();
  std::size_t experts = 0;
  for (const auto& parameter : net->named_parameters()) {
    if (train::is_expert(parameter.key())) ++experts;
    expect(
        parameter.value().grad().defined() && close(parameter.value().grad(), expected[parameter.key()].grad(), type),
        words + ": the gradient of " + parameter.key(), comm.rank());
  }
  expect(experts == 4u * kExperts / static_cast<std::size_t>(comm.size()), words + ": experts here", comm.rank());

  const train::Spoken said = spoken(net->mixture->exchange().sentence(), tutti::Verb::all_to_all);
  const tutti::Counters counted = net->mixture->exchange().counters();
  expect(counted[tutti::Verb::all_to_all].calls == said.calls && counted[tutti::Verb::all_to_all].bytes == said.bytes,
         words + ": counted bytes and calls are those of the sentence", comm.rank());
}

void check_dense(tutti::Communicator& comm) {
  tutti::Communicator self = comm.split(comm.rank());
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const train::MixtureOptions& options :
         {train::MixtureOptions{.experts = kExperts, .top_k = 2},
          train::MixtureOptions{.experts = kExperts, .top_k = 1, .renormalise = false},
          train::MixtureOptions{.experts = kExperts, .top_k = 2, .balance = 0.3},
          train::MixtureOptions{.experts = kExperts, .top_k = 3, .capacity_factor = 0.5, .balance = 0.3},
          train::MixtureOptions{
              .experts = kExperts, .top_k = 2, .capacity_factor = 0.5, .drop = train::DropPolicy::probability}}) {
      compare_with_dense(comm, self, options, type);
    }
  }
}

// What joins by itself is what who adds the loss by hand gets; two forwards may come before their backwards.
void check_balance(tutti::Communicator& comm) {
  const train::MixtureOptions options{.experts = kExperts, .top_k = 2};
  train::MixtureOptions joins = options;
  joins.balance = 0.25;
  Net by_hand = make_net(comm, options, at::kDouble), by_itself = make_net(comm, joins, at::kDouble);
  std::vector<Tensor> losses;
  for (const int step : {0, 1}) {
    const Tensor loss = by_hand->forward(tokens_of(comm.rank(), step, at::kDouble));
    const Tensor balance = by_hand->mixture->balance_loss();
    expect(std::abs(balance.item<double>() - by_hand->mixture->routing().balance_loss) < 1e-5, "as the router has it",
           comm.rank());
    (loss + 0.25 * balance).backward();
    losses.push_back(by_itself->forward(tokens_of(comm.rank(), step, at::kDouble)));
  }
  for (const Tensor& loss : losses) loss.backward();
  const auto expected = by_hand->named_parameters();
  for (const auto& parameter : by_itself->named_parameters())
    expect(close(parameter.value().grad(), expected[parameter.key()].grad(), at::kDouble),
           "balance: " + parameter.key(), comm.rank());
}

// A loss scale goes for it as for the loss: an update is that of training without one, whatever the scale, and as it
// comes back from a checkpoint, which the strategy alone knows.
void check_balance_under_loss_scale(tutti::Communicator& comm) {
  const train::MixtureOptions options{.experts = kExperts, .top_k = 2, .balance = 0.5};
  const train::Sgd optimizer{.learning_rate = 0.2};
  const auto filter = [](bool experts) {
    return [experts](const std::string& name) { return train::is_expert(name) == experts; };
  };
  train::StrategyOptions scaled;
  scaled.loss_scale = train::LossScale{.initial = 1024, .growth = 1, .backoff = 1};
  tutti::Communicator self = comm.split(comm.rank());
  Net plain = make_net(self, options, at::kFloat), net = make_net(self, options, at::kFloat);
  train::ModuleStrategy reference(self, *plain, 0, optimizer);
  train::StrategyOptions changing;
  changing.loss_scale = train::LossScale{};
  job_checks::says(words_of([&] { train::ModuleStrategy(self, *net, 0, optimizer, changing, filter(true)); }),
                   "a loss scale that changes, for a part of the module's parameters", comm.rank());
  {
    train::ModuleStrategy others(self, *net, 0, optimizer, scaled, filter(false)),
        experts(self, *net, 0, optimizer, scaled, filter(true));
    for (int step = 0; step < 4; ++step) {
      plain->forward(tokens_of(comm.rank(), step, at::kFloat)).backward();
      reference.step();
      if (step == 2) {
        for (train::ModuleStrategy* each : {&others, &experts}) {
          each->owned();
          each->strategy().restored(each->updates(), 64);
        }
      }
      const Tensor loss = net->forward(tokens_of(comm.rank(), step, at::kFloat));
      expect(others.loss_scale() == (step < 2 ? 1024 : 64), "the scale of step " + std::to_string(step), comm.rank());
      (loss * others.loss_scale()).backward();
      others.step();
      experts.step();
    }
  }
  const auto expected = plain->named_parameters();
  for (const auto& parameter : net->named_parameters())
    expect(close(parameter.value(), expected[parameter.key()], at::kFloat), "under a loss scale: " + parameter.key(),
           comm.rank());
  net->forward(tokens_of(comm.rank(), 0, at::kFloat)).backward();  // behind its strategies, as it is
}

void check_without_tokens(tutti::Communicator& comm) {
  Net net = make_net(comm, {.experts = kExperts, .top_k = 2, .capacity_factor = 1.5}, at::kFloat);
  const Tensor x = comm.rank() == 0 ? torch::zeros({0, kWidth}) : tokens_of(comm.rank(), 0, at::kFloat);
  Tensor hidden = net->mixture(x.set_requires_grad(true));
  hidden.sum().backward();
  expect(hidden.sizes() == x.sizes(), "a result for every token", comm.rank());
  for (const Feed& expert : net->mixture->own)
    expect(expert->up->weight.grad().defined(), "gradients of all experts, of zeros where no token came", comm.rank());
}

// Over dp2.epN: experts' gradients are averaged over dp, all others over all; as with all experts on every rank.
void check_data_parallel(tutti::Communicator& comm) {
  if (comm.size() % 2 != 0) return;
  train::Mesh mesh(comm, {{"dp", 2}, {"ep", comm.size() / 2}});
  tutti::Communicator self = comm.split(comm.rank()), all = mesh.group({"dp", "ep"});
  const train::MixtureOptions options{.experts = kExperts, .top_k = 2};
  for (const int stage : {0, 1, 2}) {
    Net net = make_net(mesh.along("ep"), options, at::kFloat), dense = make_net(self, options, at::kFloat);
    const train::Sgd optimizer{.learning_rate = 0.2, .momentum = 0.9};
    train::ModuleStrategy others(all, *net, stage, optimizer, {},
                                 [](const std::string& name) { return !train::is_expert(name); });
    train::ModuleStrategy experts(mesh.along("dp"), *net, stage, optimizer, {}, train::is_expert);
    train::ModuleStrategy reference(comm, *dense, 0, optimizer);
    for (int step = 0; step < 6; ++step) {
      net->forward(tokens_of(comm.rank(), step, at::kFloat)).backward();
      others.step();
      experts.step();
      dense->forward(tokens_of(comm.rank(), step, at::kFloat)).backward();
      reference.step();
    }
    others.verify();
    experts.verify();
    const auto expected = dense->named_parameters();
    for (const auto& parameter : net->named_parameters())
      expect(close(parameter.value(), expected[parameter.key()], at::kFloat),
             "stage " + std::to_string(stage) + ": " + parameter.key(), comm.rank());
  }
}

void check_names_and_mistakes(tutti::Communicator& comm) {
  for (const char* name : {"expert0.up.weight", "blocks.3.mixture.expert17.down.bias"})
    expect(train::is_expert(name), name, comm.rank());
  for (const char* name : {"expert.weight", "expert3", "expertise4.weight", "my_expert4.weight", "router.weight", ""})
    expect(!train::is_expert(name), name, comm.rank());
  const auto says = [&](const train::MixtureOptions& options, const std::string& part) {
    job_checks::says(words_of([&] { make_net(comm, options, at::kFloat); }), part, comm.rank());
  };
  says({.experts = 6 * comm.size(), .top_k = 2, .capacity_factor = 0}, "a capacity factor of 0 leaves experts nothing");
  says({.experts = comm.size(), .top_k = comm.size() + 1}, "top_k is " + std::to_string(comm.size() + 1) + " of");
  if (comm.size() > 1)
    says({.experts = comm.size() + 1}, std::to_string(comm.size() + 1) + " experts cannot be cut evenly over");
}

}  // namespace

int main() {
  return job_checks::run(check_dense, check_balance, check_balance_under_loss_scale, check_without_tokens,
                         check_data_parallel, check_names_and_mistakes);
}
