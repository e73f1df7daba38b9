// Streams of CUDA devices that come after each other, for whoever passes buffers of several of them to one call.
#pragma once

#include "tutti/export.h"

namespace tutti {

// cudaStream_t, and memory of its device, which tells whose a default stream is.
struct DeviceStream {
  void* stream = nullptr;
  const void* memory = nullptr;
};

// What comes into `later` from now on waits, on the device, for what `earlier` holds. Throws Error(system) where the
// driver refuses, and Error(unsupported) where there is none.
TUTTI_API void order_streams(const DeviceStream& later, const DeviceStream& earlier);

}  // namespace tutti
