#include "device/device_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
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

// A stream, and registered memory for whoever copies between a device and any memory: the driver has other copies wait
// for all streams, and so it does with memory that is to be registered no more, for which this stays.
class Bounce {
 public:
  static constexpr std::size_t kBytes = 256 << 10;

  explicit Bounce(int device) : lock_(mutex()), current_(device), stream_(device) {
    CuAddress seen = 0;
    if (test_driver().cuMemHostGetDevicePointer_v2(&seen, data(), 0) == device::kCuSuccess) return;
    check(test_driver().cuMemHostRegister_v2(data(), kBytes, device::kCuPortable | device::kCuDeviceMap), "a bounce");
  }
  std::byte* data() const {
    alignas(4096) static std::byte memory[kBytes];
    return memory;
  }
  const TestStream& stream() const { return stream_; }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  std::lock_guard<std::mutex> lock_;
  WithDevice current_;
  TestStream stream_;
};

}  // namespace

// Before any rank makes its first call, which looks for a driver.
[[maybe_unused]] const int kNamed = ::setenv("TUTTI_CUDA_DRIVER", on_real_device() ? kRealDriver : FAKE_CUDA, 1);

[[maybe_unused]] const int kCompiler = on_real_device() ? 0 : ::setenv("TUTTI_NVRTC", FAKE_CUDA, 1);

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
  const Bounce bounce(device_);
  for (std::size_t done = 0; done < bytes; done += Bounce::kBytes) {
    const std::size_t n = std::min(Bounce::kBytes, bytes - done);
    std::memcpy(bounce.data(), static_cast<const std::byte*>(from) + done, n);
    bounce.stream().write(data_ + at + done, bounce.data(), n);
    bounce.stream().synchronize();
  }
}

void DeviceBytes::read(void* to, std::size_t bytes, std::size_t at) const {
  const Bounce bounce(device_);
  for (std::size_t done = 0; done < bytes; done += Bounce::kBytes) {
    const std::size_t n = std::min(Bounce::kBytes, bytes - done);
    bounce.stream().read(bounce.data(), data_ + at + done, n);
    bounce.stream().synchronize();
    std::memcpy(static_cast<std::byte*>(to) + done, bounce.data(), n);
  }
}

PinnedFloats::PinnedFloats(std::size_t count) : count_(count), bytes_((count * sizeof(float) + 4095) / 4096 * 4096) {
  CuContext kept = nullptr;
  check(test_driver().cuDevicePrimaryCtxRetain(&kept, 0), "keeping the device");
  const WithDevice current;
  data_ = static_cast<float*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  check(test_driver().cuMemHostRegister_v2(data_, bytes_, device::kCuPortable), "registering memory for tests");
}

PinnedFloats::~PinnedFloats() {
  drop_on(0, [&] { test_driver().cuMemHostUnregister(data_); });
  ::munmap(data_, bytes_);
}

TestStream::TestStream(int device, unsigned flags) : device_(device) {
  CuContext kept = nullptr;
  check(test_driver().cuDevicePrimaryCtxRetain(&kept, device), "keeping the device");
  const WithDevice current(device);
  check(test_driver().cuStreamCreateWithPriority(&stream_, flags, 0), "a stream for tests");
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

StreamGate TestStream::hold() const { return hold_stream(stream_, device_); }

StreamGate hold_stream(device::CuStream stream, int device) {
  const WithDevice current(device);
  const StreamGate gate = device::StreamGates::of_process().take(test_driver());
  check(test_driver().cuStreamWaitValue32_v2(stream, gate.shown(test_driver()), gate.value + 1,
                                             device::kCuWaitUntilAtLeast),
        "holding");
  return gate;
}

}  // namespace tutti::testing
