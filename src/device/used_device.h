// A device that this process uses, and what the driver says of it.
#pragma once

#include <array>
#include <cstddef>

#include "device/driver.h"

namespace tutti::device {

struct UsedDevice {
  CuDevice device = 0;
  CuContext context = nullptr;       // its primary one, which the programs of most libraries share
  std::array<std::byte, 16> name{};  // the same in all processes
  unsigned multiprocessors = 1;
};

}  // namespace tutti::device
