// How much memory this machine has.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace tutti::tools {

// 0 where the system does not say.
inline std::size_t machine_memory_bytes() {
  const long pages = std::max(::sysconf(_SC_PHYS_PAGES), 0L), page_bytes = std::max(::sysconf(_SC_PAGESIZE), 0L);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

}  // namespace tutti::tools
