// Allocations on a device that processes show each other, each by a handle of the driver's.
//
// An allocation is known by the driver's number of it, never by its address: that comes again when memory is freed and
// allocated anew. What was opened stays open, because opening takes long, until the same process shows another
// allocation at that address, or too many are open. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

#include "base/device_place.h"
#include "device/driver.h"

namespace tutti::device {

class SharedAllocations {
 public:
  // For all communicators of this process.
  static SharedAllocations& of_process();
  // This process among those that show each other memory.
  std::uint64_t process() const { return process_; }

  // The place of memory of this process; false where the driver has no handle for it, as for memory of pools. A context
  // of its device must be current. `place` may be one that this has filled in before: of the same allocation it keeps
  // the handle, without a lock.
  bool show(const Driver& driver, const void* address, DevicePlace& place);
  // The memory at a place that `process` has shown, in the context, which is the current one. Throws Error(system)
  // where the driver does not open it.
  std::byte* open(const Driver& driver, CuContext context, std::uint64_t process, const DevicePlace& place);
  // The same for whoever opens the same again and again: takes no lock where it is what was opened `last`, and nothing
  // has been closed since.
  struct Last {
    CuContext context = nullptr;
    std::uint64_t process = 0, allocation = 0, closings = 0;
    std::byte* begin = nullptr;
  };
  std::byte* open(const Driver& driver, CuContext context, std::uint64_t process, const DevicePlace& place, Last& last);

 private:
  static constexpr std::size_t kMostOpen = 256, kMostShown = 256;

  SharedAllocations();

  struct Opened {
    CuContext context;
    std::uint64_t process, base, allocation;
    CuAddress address;
  };

  void close(const Driver& driver, const Opened& opened);

  std::uint64_t process_;
  std::atomic<std::uint64_t> closings_{0};  // how many have been closed
  std::mutex mutex_;
  std::map<std::uint64_t, std::array<std::byte, 64>> shown_;  // handles by number of the allocation
  std::list<Opened> opened_;                                  // the one used last comes first
};

}  // namespace tutti::device
