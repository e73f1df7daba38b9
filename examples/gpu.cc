// Gradients in the memory of a GPU that the ranks may share: verbs take its addresses as those of any other memory, in
// any mixture. Needs a GPU when it runs, and nothing of CUDA when it is built.
//
//   tutti run -n 4 -- gpu
#include <tutti/init.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main() {
  try {
    constexpr std::size_t kCount = 1 << 20;
    tutti::Communicator comm = tutti::init();
    const tutti::DeviceMemory<float> gradients = comm.allocate_device<float>(kCount);
    std::vector<float> host(kCount, static_cast<float>(comm.rank() + 1));

    // Input in host memory, output on the GPU.
    comm.run({.verb = tutti::Verb::all_reduce,
              .input = host.data(),
              .output = gradients.data(),
              .input_count = kCount,
              .output_count = kCount,
              .element = tutti::DType::float32});
    // All of it on the GPU: where ranks share one, one of them launches a kernel for all.
    comm.all_reduce(gradients.span(), tutti::ReduceOp::average);
    const std::string way(comm.last_algorithm());
    // And back.
    comm.run({.verb = tutti::Verb::broadcast,
              .input = gradients.data(),
              .output = host.data(),
              .input_count = kCount,
              .output_count = kCount,
              .element = tutti::DType::float32});
    std::printf("rank %d of %d: %g everywhere, by %s\n", comm.rank(), comm.size(), host.back(), way.c_str());
    const auto ranks = static_cast<float>(comm.size());
    return host.front() == ranks * (ranks + 1) / 2 && host.back() == host.front() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
