// A device that this process uses, and what the driver says of it.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "device/driver.h"

namespace tutti::device {

struct UsedDevice {
  CuDevice device = 0;
  CuContext context = nullptr;       // its primary one, which the programs of most libraries share
  std::array<std::byte, 16> name{};  // the same in all processes
  unsigned multiprocessors = 1;
};

// In words, for errors.
inline std::string name_of_device(CuDevice device) { return "device " + std::to_string(device); }

}  // namespace tutti::device
