#include "device/copy.h"

#include <cstdint>
#include <cstring>

#include "device/driver.h"

namespace tutti::device {

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
  const CuDevice device = target == kOnHost ? source : target;
  CuContext context = nullptr;
  known->check(known->cuDevicePrimaryCtxRetain(&context, device), "using device " + std::to_string(device));
  CuResult result = kCuSuccess;
  {
    const Current current(*known, context);
    result = known->cuMemcpy(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), bytes);
  }
  known->cuDevicePrimaryCtxRelease_v2(device);
  known->check(result, "a copy of " + std::to_string(bytes) + " bytes on device " + std::to_string(device));
}

}  // namespace tutti::device
