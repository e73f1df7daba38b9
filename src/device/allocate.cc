#include "device/allocate.h"

#include <algorithm>
#include <string>

#include "tutti/error.h"

namespace tutti::device {
namespace {

// A device's primary context, for as long as memory there is anybody's.
class Kept {
 public:
  Kept(const Driver& driver, CuDevice device) : driver_(driver), device_(device) {
    driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device), "using device " + std::to_string(device));
  }
  ~Kept() {
    const AmidCaptures amid_captures(driver_);
    if (address_ != 0 && driver_.cuCtxPushCurrent_v2(context_) == kCuSuccess) {
      driver_.cuMemFree_v2(address_);
      CuContext popped = nullptr;
      driver_.cuCtxPopCurrent_v2(&popped);
    }
    driver_.cuDevicePrimaryCtxRelease_v2(device_);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void* allocate(std::size_t bytes) {
    const Current current(driver_, context_);
    driver_.check(driver_.cuMemAlloc_v2(&address_, bytes),
                  "allocating " + std::to_string(bytes) + " bytes on device " + std::to_string(device_));
    driver_.check(driver_.cuMemsetD8_v2(address_, 0, bytes), "clearing memory of device " + std::to_string(device_));
    driver_.check(driver_.cuStreamSynchronize(nullptr), "clearing memory of device " + std::to_string(device_));
    return reinterpret_cast<void*>(address_);
  }

 private:
  const Driver& driver_;
  CuDevice device_;
  CuContext context_ = nullptr;
  CuAddress address_ = 0;
};

}  // namespace

std::shared_ptr<void> allocate(const Driver& driver, CuDevice device, std::size_t bytes) {
  driver.require_complete();
  const int devices = count_devices(driver);
  if (device < 0 || device >= devices) {
    throw Error(ErrorCode::invalid_argument, "there is no device " + std::to_string(device) + "; this process sees " +
                                                 std::to_string(devices) + ", which CUDA_VISIBLE_DEVICES may limit");
  }
  auto kept = std::make_shared<Kept>(driver, device);
  void* const memory = kept->allocate(std::max<std::size_t>(bytes, 1));
  return {std::move(kept), memory};
}

}  // namespace tutti::device
