// Streams that come after each other, though no call is between them.
#pragma once

#include "device/driver.h"

namespace tutti::device {

// A stream, and memory of its device, which tells whose a default stream is.
struct StreamOfMemory {
  CuStream stream = nullptr;
  const void* memory = nullptr;
};

// What comes into `later` from now on waits, on the device, for what `earlier` holds. Throws Error(system) where the
// driver refuses.
void order_streams(const Driver& driver, const StreamOfMemory& later, const StreamOfMemory& earlier);

}  // namespace tutti::device
