#include "device/device_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "tutti/error.h"

namespace tutti::testing {
namespace {

using device::CuAddress;
using device::CuContext;
using device::Driver;
using device::StreamGate;

constexpr char kRealDriver[] = "libcuda.so.1";

void check(device::CuResult result, const char* what) { test_driver().check(result, what); }

// Nothing can be given back to a device that is broken.
template <class Drop>
void drop_on(int device, Drop&& drop) {
  try {
    const WithDevice current(device);
    drop();
  } catch (const Error&) {
    return;
  }
  test_driver().cuDevicePrimaryCtxRelease_v2(device);
}

}  // namespace

// Before any rank makes its first call, which looks for a driver.
[[maybe_unused]] const int kNamed = ::setenv("TUTTI_CUDA_DRIVER", on_real_device() ? kRealDriver : FAKE_CUDA, 1);

bool on_real_device() { return std::getenv("TUTTI_TEST_GPU") != nullptr; }

const Driver& test_driver() {
  static const Driver& kDriver = []() -> const Driver& {
    device::look_for_driver();
    if (device::driver() == nullptr) throw std::runtime_error("no driver to test with");
    return *device::driver();
  }();
  return kDriver;
}

void* fake_function(const char* name) {
  static void* const kLibrary = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  return on_real_device() ? nullptr : ::dlsym(kLibrary, name);
}

WithDevice::WithDevice(int device) : device_(device) {
  CuContext context = nullptr;
  check(test_driver().cuDevicePrimaryCtxRetain(&context, device), "a device for tests");
  check(test_driver().cuCtxPushCurrent_v2(context), "a device for tests");
}

WithDevice::~WithDevice() {
  CuContext context = nullptr;
  test_driver().cuCtxPopCurrent_v2(&context);
  test_driver().cuDevicePrimaryCtxRelease_v2(device_);
}

DeviceBytes::DeviceBytes(std::size_t bytes, int device) : bytes_(bytes), device_(device) {
  const WithDevice current(device);
  CuAddress address = 0;
  CuContext kept = nullptr;
  if (bytes == 0) return;
  check(test_driver().cuDevicePrimaryCtxRetain(&kept, device), "keeping the device");
  check(test_driver().cuMemAlloc_v2(&address, bytes), "memory for tests");
  data_ = reinterpret_cast<std::byte*>(address);
}

DeviceBytes::~DeviceBytes() {
  if (bytes_ == 0) return;
  drop_on(device_, [&] { test_driver().cuMemFree_v2(reinterpret_cast<CuAddress>(data_)); });
}

void DeviceBytes::write(const void* from, std::size_t bytes, std::size_t at) const {
  const WithDevice current(device_);
  if (bytes == 0) return;
  check(test_driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<CuAddress>(data_ + at), from, bytes, nullptr), "writing");
  check(test_driver().cuStreamSynchronize(nullptr), "writing");
}

void DeviceBytes::read(void* to, std::size_t bytes, std::size_t at) const {
  const WithDevice current(device_);
  if (bytes == 0) return;
  check(test_driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CuAddress>(data_ + at), bytes, nullptr), "reading");
  check(test_driver().cuStreamSynchronize(nullptr), "reading");
}

TestStream::TestStream(int device) : device_(device) {
  CuContext kept = nullptr;
  check(test_driver().cuDevicePrimaryCtxRetain(&kept, device), "keeping the device");
  const WithDevice current(device);
  check(test_driver().cuStreamCreateWithPriority(&stream_, device::kCuNonBlockingStream, 0), "a stream for tests");
}

TestStream::~TestStream() {
  drop_on(device_, [&] { test_driver().cuStreamDestroy_v2(stream_); });
}

void TestStream::write(std::byte* to, const void* from, std::size_t bytes) const {
  const WithDevice current(device_);
  check(test_driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<CuAddress>(to), from, bytes, stream_), "writing");
}

void TestStream::read(void* to, const std::byte* from, std::size_t bytes) const {
  const WithDevice current(device_);
  check(test_driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CuAddress>(from), bytes, stream_), "reading");
}

void TestStream::synchronize() const {
  const WithDevice current(device_);
  check(test_driver().cuStreamSynchronize(stream_), "waiting");
}

StreamGate TestStream::hold() const {
  const WithDevice current(device_);
  const StreamGate gate = device::StreamGates::of_process().take(test_driver());
  check(test_driver().cuStreamWaitValue32_v2(stream_, gate.shown(test_driver()), gate.value + 1,
                                             device::kCuWaitUntilAtLeast),
        "holding");
  return gate;
}

}  // namespace tutti::testing
