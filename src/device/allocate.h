// Memory of a device for whoever asks the library for it.
#pragma once

#include <cstddef>
#include <memory>

#include "device/driver.h"

namespace tutti::device {

// Zeroed, of a kind that can be shown to other processes. Throws Error(invalid_argument) where there is no such device,
// and Error(system), which says how much was asked for, where the device has no room. Whoever drops it waits inside the
// driver for all streams of the device.
std::shared_ptr<void> allocate(const Driver& driver, CuDevice device, std::size_t bytes);

}  // namespace tutti::device
