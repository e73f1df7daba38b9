#include "device/launch_reduce.h"

#include <algorithm>
#include <cstring>

#include "device/kernel_compiler.h"

namespace tutti::device {
namespace {

constexpr unsigned kThreads = 512;
constexpr std::uint64_t kLineBytes = 16;  // of one access
constexpr unsigned kBlocksOfMultiprocessor = 4;

// How many lines of all operands begin where one access reads them.
std::uint64_t aligned_lines(const ReduceLaunch& launch) {
  const auto aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kLineBytes == 0; };
  if (!std::ranges::all_of(launch.sources, aligned) || !std::ranges::all_of(launch.destinations, aligned)) return 0;
  return launch.count * size_of(launch.type) / kLineBytes;
}

unsigned count_multiprocessors(const Driver& driver, CuDevice device) {
  int count = 0;
  driver.check(driver.cuDeviceGetAttribute(&count, kCuMultiprocessors, device), "asking what the device can do");
  return static_cast<unsigned>(std::max(1, count));
}

}  // namespace

void launch_reduce(const Driver& driver, CuDevice device, CuStream stream, const ReduceLaunch& launch) {
  CuFunction const kernel = KernelCompiler::of_process().reduce(driver, device, launch.type, launch.op,
                                                                static_cast<int>(launch.sources.size()));
  ReduceOperands operands{};
  std::ranges::copy(launch.sources, operands.sources);
  std::ranges::copy(launch.destinations, operands.destinations);
  int destinations = static_cast<int>(launch.destinations.size());
  unsigned long long count = launch.count, lines = aligned_lines(launch);
  unsigned divisor = launch.divisor;
  void* arguments[] = {&operands, &destinations, &count, &lines, &divisor};
  const std::uint64_t wanted =
      (std::max(lines, count - lines * (kLineBytes / size_of(launch.type))) + kThreads - 1) / kThreads;
  const unsigned most = kBlocksOfMultiprocessor * count_multiprocessors(driver, device);
  const auto blocks = static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, most));
  driver.check(driver.cuLaunchKernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr),
               "launching a reduction on device " + std::to_string(device));
}

}  // namespace tutti::device
