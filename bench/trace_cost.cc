// What it costs a call to be recorded: the same calls with and without a trace, in turns, in one process.
//
//   tutti run -n 2 --no-prefix -- trace_cost [ROUNDS]
//
// Calls are timed in short batches, and the quickest hundredth of them counts, so that other programs on the machine
// are in neither. Each recorded call reads the clock when it is entered and when it has ended: what two readings alone
// take is measured among the same batches.
#include <tutti/trace.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tutti/tutti.hpp>
#include <vector>

#include "trace/clock.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 600;

// Nanoseconds of a call, of each batch.
void time_batches(tutti::Communicator& comm, std::vector<float>& vector, int calls, std::vector<double>& times) {
  std::vector<float> sum(vector.size());
  for (int batch = 0; batch < kBatches; ++batch) {
    comm.barrier();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) comm.all_reduce(vector, sum, tutti::ReduceOp::sum);
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls);
  }
}

// Of two readings of the clock that traces go by.
void time_readings(std::vector<double>& times) {
  constexpr int kPairs = 100;
  const tutti::trace::Clock clock;
  for (int batch = 0; batch < kBatches; ++batch) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < 2 * kPairs; ++i) static_cast<void>(clock.now());
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kPairs);
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
  std::vector<double> readings;
  if (comm.rank() == 0) std::printf("   bytes     off, ns      on, ns   costs, ns\n");
  for (const std::size_t bytes : {8, 1024, 4096, 16384, 32768, 65536, 262144}) {
    const int calls = bytes <= 1024 ? 100 : bytes <= 32768 ? 30 : 10;
    std::vector<float> vector(bytes / sizeof(float));
    std::vector<double> off, on;
    time_readings(readings);
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
  if (comm.rank() == 0) {
    std::printf("two readings of the clock, which are in each of them: %.1f ns\n", quickest(readings));
    std::filesystem::remove(file);
  }
}
