// Communication behind work: the gradients of a layer are summed while the layer before it is still computed, as data
// parallel training does. The same work and the same sums are done one after the other and overlapped, and timed.
//
// Overlap needs somebody to carry the messages while the ranks compute: a free core. Where ranks outnumber cores there
// is nothing to hide behind, and this program says so.
//
//   tutti run -n 2 -- build/bin/overlap
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr std::size_t kLayers = 6, kWeights = 1 << 19;
using Layers = std::vector<std::vector<float>>;

// Stands for the backward pass of a layer: as long as it takes, and the same gradients every time.
void compute(std::vector<float>& gradients, int rank, std::size_t layer) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    float value = static_cast<float>((i + layer) % 17) + static_cast<float>(rank);
    for (int step = 0; step < 12; ++step) value = value * 0.75F + 1.5F;
    gradients[i] = value;
  }
}

void one_after_the_other(tutti::Communicator& comm, Layers& layers) {
  for (std::size_t i = layers.size(); i-- > 0;) {
    compute(layers[i], comm.rank(), i);
    comm.all_reduce(layers[i], tutti::ReduceOp::average);
  }
}

void overlapped(tutti::Communicator& comm, Layers& layers) {
  std::vector<tutti::Work> works;
  for (std::size_t i = layers.size(); i-- > 0;) {
    compute(layers[i], comm.rank(), i);
    works.push_back(comm.all_reduce_async(layers[i], tutti::ReduceOp::average));
  }
  tutti::wait_all(works);
}

// The best of some rounds, of the rank that took longest.
template <class Pass>
double best_ms(tutti::Communicator& comm, Layers& layers, const Pass& pass) {
  double best = 1e300;
  for (int round = 0; round < 7; ++round) {
    comm.barrier();
    const auto start = std::chrono::steady_clock::now();
    pass(comm, layers);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  comm.all_reduce(tutti::one(best), tutti::ReduceOp::maximum);
  return best;
}

int run(tutti::Communicator comm) {
  Layers first(kLayers, std::vector<float>(kWeights)), second = first;
  const double apart_ms = best_ms(comm, first, one_after_the_other);
  const double together_ms = best_ms(comm, second, overlapped);
  if (comm.rank() == 0) {
    std::printf("ranks: %d, layers: %zu of %zu gradients\n", comm.size(), kLayers, kWeights);
    std::printf("one after the other  %7.2f ms\n", apart_ms);
    std::printf("overlapped           %7.2f ms\n", together_ms);
    cpu_set_t cores;
    const int usable = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    if (together_ms < 0.98 * apart_ms)
      std::printf("saved %.0f %%\n", 100 * (1 - together_ms / apart_ms));
    else if (comm.size() == 1)
      std::printf("nothing saved: one rank has nobody to talk to\n");
    else if (comm.size() >= usable)
      std::printf("nothing saved: no core is free (this rank may use %d)\n", usable);
    else
      std::printf("nothing saved this time\n");
  }
  return first == second ? 0 : 1;
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
