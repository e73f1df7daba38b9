// Memory of a device for tests: of the fake driver, or of this machine's where TUTTI_TEST_GPU=1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/driver.h"
#include "device/stream_gates.h"

namespace tutti::testing {

// Loads the driver; the same one every time.
const device::Driver& test_driver();
bool on_real_device();
// A function of fake_cuda.h, or nullptr on a real device.
void* fake_function(const char* name);
template <class Function>
Function* fake(const char* name) {
  return reinterpret_cast<Function*>(fake_function(name));
}

// The primary context of a device, current on this thread while this lives.
class WithDevice {
 public:
  explicit WithDevice(int device = 0);
  ~WithDevice();
  WithDevice(const WithDevice&) = delete;
  WithDevice& operator=(const WithDevice&) = delete;

 private:
  int device_;
};

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes, int device = 0);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Both return when it is done, whatever other streams are held by.
  void write(const void* from, std::size_t bytes, std::size_t at = 0) const;
  void read(void* to, std::size_t bytes, std::size_t at = 0) const;

 private:
  std::size_t bytes_;
  int device_;
  std::byte* data_ = nullptr;
};

// Memory of the host that is registered with the driver. What copies to other memory waits inside the driver.
class PinnedFloats {
 public:
  explicit PinnedFloats(std::size_t count);
  ~PinnedFloats();
  PinnedFloats(const PinnedFloats&) = delete;
  PinnedFloats& operator=(const PinnedFloats&) = delete;

  float* data() const { return data_; }
  std::vector<float> values() const { return {data_, data_ + count_}; }

 private:
  std::size_t count_, bytes_;
  float* data_ = nullptr;
};

// Holds what comes behind it in the stream until the gate is opened; nullptr: the default stream.
device::StreamGate hold_stream(device::CuStream stream, int device = 0);

// A stream of the caller's.
class TestStream {
 public:
  explicit TestStream(int device = 0, unsigned flags = device::kCuNonBlockingStream);
  ~TestStream();
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  device::CuStream get() const { return stream_; }
  void write(std::byte* to, const void* from, std::size_t bytes) const;
  void read(void* to, const std::byte* from, std::size_t bytes) const;
  void synchronize() const;
  device::StreamGate hold() const;

 private:
  int device_;
  device::CuStream stream_ = nullptr;
};

}  // namespace tutti::testing
