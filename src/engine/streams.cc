#include "tutti/streams.h"

#include "device/order_streams.h"

namespace tutti {

void order_streams(const DeviceStream& later, const DeviceStream& earlier) {
  device::order_streams(device::load_driver(), {static_cast<device::CuStream>(later.stream), later.memory},
                        {static_cast<device::CuStream>(earlier.stream), earlier.memory});
}

}  // namespace tutti
