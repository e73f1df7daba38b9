// limit: the least that this machine needs for a float32 all_reduce of two processes over shared buffers.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "spine/measure.h"

int main() {
  using namespace tutti::bench;
  constexpr int kRounds = 41;
  const LimitMemory memory(2);
  const int rank = ::fork() == 0 ? 1 : 0;
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  ::sched_setaffinity(0, sizeof core, &core);

  Limit limit = memory.limit(rank);
  if (rank == 0)
    std::printf("limit: float32 all_reduce, 2 processes, buffers already shared, median of %d\n%12s %12s\n", kRounds,
                "bytes", "us");
  for (const std::size_t bytes : kSizes) {
    std::vector<double> times;
    const int iterations = iterations_for(bytes);
    for (int round = 0; round < kRounds; ++round) {
      limit.barrier();
      const double begin = now_us();
      for (int i = 0; i < iterations; ++i) limit.all_reduce(bytes / sizeof(float));
      times.push_back((now_us() - begin) / iterations);
    }
    if (rank == 0) std::printf("%12zu %12.3f\n", bytes, median(times));
  }
  std::fflush(stdout);
  if (rank == 1) ::_exit(0);
  return ::wait(nullptr) > 0 ? 0 : 1;
}
