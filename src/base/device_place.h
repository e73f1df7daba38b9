// Where a buffer on a device lies, in words that other processes of the host can use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

struct DevicePlace {
  std::array<std::byte, 64> handle;  // the driver's, by which another process opens the allocation
  std::uint64_t allocation;          // the driver's number of it, which no other of that process ever gets
  std::uint64_t bytes;               // of the allocation
  std::uint64_t address;             // of the buffer, in the process that it belongs to
  std::uint64_t offset;              // of the buffer in the allocation
};

}  // namespace tutti
