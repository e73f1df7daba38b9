#include "device/launch.h"

#include <algorithm>
#include <cstring>

#include "device/kernel_compiler.h"

namespace tutti::device {
namespace {

constexpr unsigned kThreads = 512;
constexpr std::uint64_t kLineBytes = 16;  // of the longest access
constexpr std::uint64_t kBlocksOfMultiprocessor = 4;

LaunchOperands operands_of(std::span<void* const> sources, std::span<void* const> destinations) {
  LaunchOperands operands{};
  std::ranges::copy(sources, operands.sources);
  std::ranges::copy(destinations, operands.destinations);
  return operands;
}

// The longest access that begins at a multiple of itself in all operands, and from one piece to the next.
std::uint64_t access_bytes(std::span<void* const> sources, std::span<void* const> destinations, std::uint64_t step) {
  std::uintptr_t bits = step | kLineBytes;
  for (const auto& operands : {sources, destinations}) {
    for (const void* address : operands) bits |= reinterpret_cast<std::uintptr_t>(address);
  }
  return bits & (~bits + 1);
}

// `accesses` of a thread each in each of the pieces.
void launch(const Driver& driver, const UsedDevice& device, CuStream stream, CuFunction kernel, std::uint64_t accesses,
            unsigned pieces, void** arguments) {
  const auto resident = kBlocksOfMultiprocessor * device.multiprocessors;
  const std::uint64_t most = std::max<std::uint64_t>(1, resident / pieces);
  const auto blocks = static_cast<unsigned>(std::clamp<std::uint64_t>((accesses + kThreads - 1) / kThreads, 1, most));
  const CuResult result =
      driver.cuLaunchKernel(kernel, blocks, pieces, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
  if (result != kCuSuccess) driver.check(result, "launching a kernel on device " + std::to_string(device.device));
}

}  // namespace

void launch_reduce(const Driver& driver, const UsedDevice& device, CuStream stream, CuFunction kernel,
                   const ReduceLaunch& launched) {
  LaunchOperands operands = operands_of(launched.sources, launched.destinations);
  int destinations = static_cast<int>(launched.destinations.size());
  const std::uint64_t element = launched.element_bytes, bytes = launched.count * element;
  const bool aligned = kLineBytes % element == 0 && access_bytes(launched.sources, launched.destinations,
                                                                 launched.blocks > 1 ? bytes : 0) == kLineBytes;
  unsigned long long count = launched.count, lines = aligned ? bytes / kLineBytes : 0, step = launched.count;
  unsigned divisor = launched.divisor;
  void* arguments[] = {&operands, &destinations, &count, &lines, &divisor, &step};
  launch(driver, device, stream, kernel, std::max(lines, count - lines * (kLineBytes / element)), launched.blocks,
         arguments);
}

void launch_copy(const Driver& driver, const UsedDevice& device, CuStream stream, CuFunction kernel,
                 const CopyLaunch& launched) {
  LaunchOperands operands = operands_of(launched.sources, launched.destinations);
  int destinations = static_cast<int>(launched.destinations.size()), columns = static_cast<int>(launched.columns);
  const auto pieces = static_cast<unsigned>(launched.sources.size()) * launched.columns;
  unsigned long long bytes = launched.bytes;
  const std::uint64_t access = access_bytes(launched.sources, launched.destinations, pieces > 1 ? bytes : 0);
  int unit = static_cast<int>(access);
  void* arguments[] = {&operands, &destinations, &columns, &bytes, &unit};
  launch(driver, device, stream, kernel, std::max<std::uint64_t>(bytes / access, bytes % access), pieces, arguments);
}

}  // namespace tutti::device
