#include "tools/measure_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "tools/clusters.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

constexpr std::size_t kShortGpu = 16, kLongGpu = 16 << 20;  // elements of float32

struct Timed {
  double seconds = 0;  // the median of the slowest rank's
  std::string way;
};

Timed time_of(Communicator& comm, std::span<float> values, int rounds) {
  constexpr int kWarm = 3;
  std::vector<double> times;
  for (int round = 0; round < kWarm + rounds; ++round) {
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    comm.all_reduce(values, ReduceOp::maximum);
    if (round >= kWarm)
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const std::string way(comm.last_algorithm());
  comm.all_reduce(times, ReduceOp::maximum);
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return {times[static_cast<std::size_t>(rounds / 2)], way};
}

std::optional<MeasuredGpu> measure_gpu(Communicator& comm, int device) {
  MeasuredGpu gpu;
  gpu.device = device;
  std::optional<DeviceMemory<float>> memory;
  std::vector<int> drivers = {1};
  try {
    memory = comm.allocate_device<float>(kLongGpu, device);  // on all ranks or on none
  } catch (const Error& error) {
    drivers = {error.code() == ErrorCode::unsupported ? 0 : 1};
    gpu.why_not = error.what();
  }
  comm.all_reduce(drivers, ReduceOp::maximum);
  if (drivers.front() == 0) return std::nullopt;
  if (!gpu.why_not.empty()) return gpu;
  const Timed shortly = time_of(comm, memory->span().first(kShortGpu), 50);
  const Timed longer = time_of(comm, memory->span(), 7);
  gpu.way = shortly.way;
  gpu.short_s = shortly.seconds;
  gpu.bytes_per_s = static_cast<double>(kLongGpu * sizeof(float)) / longer.seconds;
  return gpu;
}

}  // namespace

std::vector<MeasuredGpu> measure_gpus(Communicator& comm) {
  std::vector<MeasuredGpu> gpus;
  for (const int device : {0, kOwnDevice}) {
    const std::optional<MeasuredGpu> gpu = measure_gpu(comm, device);
    const bool same = gpu && !gpus.empty() && gpu->way == gpus.front().way && gpu->why_not == gpus.front().why_not;
    if (gpu && !same) gpus.push_back(*gpu);
  }
  return gpus;
}

std::string words_of(const MeasuredGpu& gpu) {
  if (!gpu.why_not.empty()) return "GPUs: ranks cannot use them: " + gpu.why_not;
  const std::string way = gpu.way == "one_launch" ? "all ranks share it, and one launches a kernel for all, by CUDA IPC"
                          : gpu.way == "own_shares"
                              ? "each does its share by a kernel of its own, by CUDA IPC and peer access"
                              : "through host memory, by " + gpu.way;
  return fmt::format("{}: {}; all_reduce of 64 bytes in {}, of 64 MB at {}",
                     gpu.device == kOwnDevice ? "a GPU to each rank" : "GPU 0 of every rank", way,
                     rounded_time(gpu.short_s), rounded_bandwidth(gpu.bytes_per_s));
}

}  // namespace tutti::tools
