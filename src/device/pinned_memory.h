// Memory of the host that devices copy from and to at full speed: pages that are registered with the driver, kept for
// the next one who asks, because registering takes longer than most copies.
//
// Pages are ordinary ones, so that peers may copy from them with one system call, as from any memory. Where the driver
// refuses to register them, they serve as they are, and copies take longer, and hold up the thread that asks for them.
//
// Threads: any. take() is for threads that nobody waits for: the driver may hold it up until work of the device ends.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "device/driver.h"

namespace tutti::device {

class PinnedMemory {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool registered = false;
  };

  explicit PinnedMemory(const Driver& driver) : driver_(&driver) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // At least so many bytes. A context must be current. Throws Error(system) where there is no memory.
  Block take(std::size_t bytes);
  void give_back(const Block& block);
  // For work that a stream comes to later: the driver may let copies from and to other memory wait for the stream, or
  // take what is there now. Tries once more to register a block that is not. Throws Error(system).
  void require_registered(Block& block) const;

 private:
  // What is kept while nobody uses it, at most.
  static constexpr std::size_t kMostKept = std::size_t{1} << 30;

  void release(const Block& block) const;

  const Driver* driver_;
  std::mutex mutex_;
  std::vector<Block> kept_;  // the one given back last comes last
  std::size_t kept_bytes_ = 0;
};

}  // namespace tutti::device
