// Device memory that calls have used, so that a buffer which was freed since gets a sentence: to the driver it is no
// longer a device's, and the processor cannot read it.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/driver.h"

namespace tutti::device {

class SeenMemory {
 public:
  // The allocation around this address, which lies on the device, is remembered.
  void note(const Driver& driver, const void* address, int device);
  // Of an address that is not a device's: the device that it was on, where it is memory no more; else kOnHost.
  int was_on(const void* address) const;

 private:
  static constexpr std::size_t kMostSeen = 64;

  struct Allocation {
    std::uintptr_t begin = 0, end = 0;
    int device = kOnHost;
  };

  const Allocation* find(const void* address) const;

  std::vector<Allocation> seen_;  // as many as come; then the oldest gives way
  std::size_t next_ = 0;
};

}  // namespace tutti::device
