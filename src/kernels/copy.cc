// Copies one source to several destinations.
//
// The source is walked once, tile by tile: a tile is read from memory for the first destination and from the
// first-level cache for the others.
#include <algorithm>

#include "kernels/kernels.h"

namespace tutti::kernels {

namespace {
constexpr std::size_t kTileBytes = 16 * 1024;
}

void copy_to_many(void* const* destinations, std::size_t destination_count, const void* source, std::size_t bytes) {
  const std::byte* const from = static_cast<const std::byte*>(source);
  for (std::size_t at = 0; at < bytes; at += kTileBytes) {
    const std::size_t tile = std::min(kTileBytes, bytes - at);
    for (std::size_t d = 0; d < destination_count; ++d) {
      std::byte* const to = static_cast<std::byte*>(destinations[d]);
      if (to != from) std::memcpy(to + at, from + at, tile);
    }
  }
}

}  // namespace tutti::kernels
