// What kernels on one device may touch of another's memory: of a device that it reaches, over NVLink or PCIe.
//
// Within a process the driver wants to be asked for it first, once; memory of other processes is opened with it, and no
// context has to be there on the other device. Devices are known by the driver's name for them, because processes
// number them each in its own way. Threads: any.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "device/driver.h"
#include "device/used_device.h"
#include "tutti/error.h"

namespace tutti::device {

class PeerAccess {
 public:
  static PeerAccess& of_process();

  // From now on kernels in the context of `device`, which is the current one, may touch memory of the other device:
  // that of this process, or what is opened of others. Throws Error(unsupported) where the device does not reach it;
  // who asks again hears the same. Of a device that this process does not see only opening its memory will tell.
  void require(const Driver& driver, const UsedDevice& device, const std::array<std::byte, 16>& other, bool of_process);

 private:
  struct Way {
    CuContext context = nullptr;
    std::array<std::byte, 16> other{};
    bool of_process = false;

    auto operator<=>(const Way&) const = default;
  };

  static std::optional<Error> find(const Driver& driver, const UsedDevice& device, const Way& way);

  std::mutex mutex_;
  std::map<Way, std::optional<Error>> ways_;  // why there is none; empty: it may be used
};

}  // namespace tutti::device
