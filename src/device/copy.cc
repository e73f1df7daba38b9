#include "device/copy.h"

#include <cstdint>
#include <cstring>

#include "device/driver.h"

namespace tutti::device {
namespace {

// In the default stream, and waited for: by themselves copies within a device return before they are done, and so do
// others where the device reads and writes ordinary memory by itself.
CuResult copy_by_device(const Driver& driver, void* to, int target, const void* from, int source, std::size_t bytes) {
  const auto target_address = reinterpret_cast<std::uintptr_t>(to),
             source_address = reinterpret_cast<std::uintptr_t>(from);
  const CuResult begun = target == kOnHost   ? driver.cuMemcpyDtoHAsync_v2(to, source_address, bytes, nullptr)
                         : source == kOnHost ? driver.cuMemcpyHtoDAsync_v2(target_address, from, bytes, nullptr)
                                             : driver.cuMemcpy(target_address, source_address, bytes);
  return begun == kCuSuccess ? driver.cuStreamSynchronize(nullptr) : begun;
}

}  // namespace

void copy_anywhere(void* to, const void* from, std::size_t bytes) {
  look_for_driver();
  const Driver* const known = driver();
  if (known == nullptr || bytes == 0) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  const int target = device_of(*known, to), source = device_of(*known, from);
  if (target == kOnHost && source == kOnHost) {
    std::memcpy(to, from, bytes);
    return;
  }
  known->require_complete();
  const AmidCaptures amid_captures(*known);
  const CuDevice device = target == kOnHost ? source : target;
  CuContext context = nullptr;
  known->check(known->cuDevicePrimaryCtxRetain(&context, device), "using device " + std::to_string(device));
  CuResult result = kCuSuccess;
  {
    const Current current(*known, context);
    result = copy_by_device(*known, to, target, from, source, bytes);
  }
  known->cuDevicePrimaryCtxRelease_v2(device);
  known->check(result, "a copy of " + std::to_string(bytes) + " bytes on device " + std::to_string(device));
}

}  // namespace tutti::device
