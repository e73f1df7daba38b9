// memcpy() for memory that may lie on a device, at either end.
#pragma once

#include <cstddef>

namespace tutti::device {

// Returns when it is done. Comes after what the default stream of the device holds; the driver may wait for all others,
// too. Throws Error(system) where the driver fails.
void copy_anywhere(void* to, const void* from, std::size_t bytes);

}  // namespace tutti::device
