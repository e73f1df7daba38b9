// Data parallel training in C++ with libtorch: a small network learns a function, every rank from samples of its own.
//
// All ranks begin with rank 0's weights and average their gradients in every step, so they stay equal bit for bit:
// this is checked at the end.
//
//   tutti run -n 4 -- build-train/train
#include <torch/torch.h>
#include <tutti/torch.h>

#include <cstdio>
#include <exception>
#include <tutti/tutti.hpp>

namespace {

constexpr int kSteps = 200, kSamples = 64;

int run(tutti::Communicator comm) {
  at::set_num_threads(1);               // ranks share the cores
  torch::manual_seed(1 + comm.rank());  // samples differ, and so would the weights
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 1));
  tutti::broadcast_parameters(comm, *model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-3));

  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor x = torch::rand({kSamples, 2}) * 4 - 2;
    const torch::Tensor y = (x.select(1, 0) * x.select(1, 1)).sin().unsqueeze(1);
    const torch::Tensor loss = torch::mse_loss(model->forward(x), y);
    optimizer.zero_grad();
    loss.backward();
    tutti::average_gradients(comm, *model);
    optimizer.step();

    const torch::Tensor mean = loss.detach().clone();
    tutti::all_reduce(comm, mean, tutti::ReduceOp::average);
    last = mean.item<double>();
    if (step == 0) first = last;
    if (comm.rank() == 0 && (step % 20 == 0 || step == kSteps - 1)) std::printf("step %3d  loss %.6f\n", step, last);
  }

  bool same = true;
  for (const torch::Tensor& parameter : model->parameters()) {
    const torch::Tensor of_rank_0 = parameter.detach().clone();
    tutti::broadcast(comm, of_rank_0, 0);
    same = same && torch::equal(parameter, of_rank_0);
  }
  std::printf("rank %d of %d: %s parameters as rank 0, loss %.4f -> %.4f\n", comm.rank(), comm.size(),
              same ? "the same" : "OTHER", first, last);
  return same && last < first / 4 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
