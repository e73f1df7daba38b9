// What it costs a call to be recorded: the same calls with and without a trace, in turns, in one process.
//
//   tutti run -n 2 --no-prefix -- trace_cost [ROUNDS]
//
// Calls are timed in short batches, and the quickest hundredth of them counts, so that other programs on the machine
// are in neither.
#include <tutti/trace.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// Nanoseconds of a call, of each batch.
void time_batches(tutti::Communicator& comm, std::vector<float>& vector, int calls, std::vector<double>& times) {
  constexpr int kBatches = 600;
  std::vector<float> sum(vector.size());
  for (int batch = 0; batch < kBatches; ++batch) {
    comm.barrier();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) comm.all_reduce(vector, sum, tutti::ReduceOp::sum);
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls);
  }
}

double quickest(std::vector<double>& times) {
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 100);
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  tutti::Communicator comm = tutti::init();
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "tutti-trace-cost.json";
  if (comm.rank() == 0) std::printf("   bytes     off, ns      on, ns   costs, ns\n");
  for (const std::size_t bytes : {8, 1024, 4096, 16384, 32768, 65536, 262144}) {
    const int calls = bytes <= 1024 ? 100 : bytes <= 32768 ? 30 : 10;
    std::vector<float> vector(bytes / sizeof(float));
    std::vector<double> off, on;
    for (int round = 0; round < rounds; ++round) {
      time_batches(comm, vector, calls, off);
      comm.trace().start(file.string());
      time_batches(comm, vector, calls, on);
      comm.trace().stop();
    }
    const double without = quickest(off), with = quickest(on);
    if (comm.rank() == 0) {
      std::printf("%8zu  %10.1f  %10.1f  %10.1f  %4.1f %%\n", bytes, without, with, with - without,
                  100 * (with / without - 1));
    }
  }
  if (comm.rank() == 0) std::filesystem::remove(file);
}
