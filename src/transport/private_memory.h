// Memory of this process alone, for transports whose ranks share none.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <string>

#include "base/system_error.h"

namespace tutti::transport {

// Zeroed; pages that are never touched cost nothing. Throws Error(system).
inline std::shared_ptr<void> map_private(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes");
  return {memory, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace tutti::transport
