// Allocations on a device that processes show each other, each by a handle of the driver's.
//
// An allocation is known by the driver's number of it, never by its address: that comes again when memory is freed and
// allocated anew. What was opened stays open, because opening takes long, until the same process shows another
// allocation that overlaps it, or too many are open; but never while somebody uses it. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/device_place.h"
#include "device/driver.h"

namespace tutti::device {

class SharedAllocations {
  // Memory of another process, open in a context.
  struct Mapping {
    CuContext context = nullptr;
    std::uint64_t process = 0, base = 0, bytes = 0, allocation = 0;
    CuAddress address = 0;
    std::atomic<int> users{0};  // or kClosed, and nobody begins to use it
  };

 public:
  // For all communicators of this process.
  static SharedAllocations& of_process();
  // This process among those that show each other memory.
  std::uint64_t process() const { return process_; }

  // The place of memory of this process; false where the driver has no handle for it, as for memory of pools. A context
  // of its device must be current. `place` may be one that this has filled in before: of the same allocation it keeps
  // the handle, without a lock.
  bool show(const Driver& driver, const void* address, DevicePlace& place);

  // Memory at a place that a process has shown, which stays open for as long as this lives.
  class Opened {
   public:
    explicit Opened(std::byte* own) : data_(own) {}
    Opened(std::shared_ptr<Mapping> used, std::uint64_t offset)
        : used_(std::move(used)), data_(reinterpret_cast<std::byte*>(used_->address) + offset) {}
    ~Opened() {
      if (used_ != nullptr) used_->users.fetch_sub(1, std::memory_order_release);
    }
    Opened(Opened&&) = default;
    Opened& operator=(Opened&&) = delete;

    std::byte* data() const { return data_; }

   private:
    std::shared_ptr<Mapping> used_;  // nullptr: it is of this process
    std::byte* data_;
  };
  // What was opened last, for whoever opens the same again and again: that takes no lock.
  struct Last {
    std::shared_ptr<Mapping> mapping;
  };
  // The context is the current one. Throws Error(system) where the driver does not open it.
  Opened open(const Driver& driver, CuContext context, std::uint64_t process, const DevicePlace& place, Last& last);

 private:
  static constexpr std::size_t kMostOpen = 256, kMostShown = 256;
  static constexpr int kClosed = -1;

  SharedAllocations();

  using Mappings = std::list<std::shared_ptr<Mapping>>;

  static bool begin_use(Mapping& mapping);
  // With mutex_ held. False where it is in use.
  static bool close(const Driver& driver, Mapping& mapping);
  template <class Unwanted>
  void close_all(const Driver& driver, Unwanted&& unwanted);
  std::shared_ptr<Mapping> find(const Driver& driver, CuContext context, std::uint64_t process,
                                const DevicePlace& place);

  std::uint64_t process_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::array<std::byte, 64>> shown_;  // handles by number of the allocation
  Mappings open_;                                             // the one used last comes first
};

}  // namespace tutti::device
