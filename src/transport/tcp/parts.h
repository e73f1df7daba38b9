// Stretches of memory as the system takes them, or does not.
#pragma once

#include <sys/uio.h>

#include <span>
#include <string>

#include "transport/transport.h"
#include "tutti/error.h"

namespace tutti::transport {

inline constexpr std::size_t kMostParts = 64;  // of one system call

// Fills `parts` with what lies behind the first `skip` bytes of `pieces`, as far as there is room; returns how many.
inline std::size_t parts_of(std::span<const Piece> pieces, std::size_t skip, std::span<iovec> parts) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    if (skip >= piece.bytes) {
      skip -= piece.bytes;
      continue;
    }
    if (count == parts.size()) break;
    parts[count++] = {piece.data + skip, piece.bytes - skip};
    skip = 0;
  }
  return count;
}

inline std::size_t bytes_of(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

[[noreturn]] inline void refuse_memory(const char* what) {
  throw Error(ErrorCode::invalid_argument, std::string("the buffer that this rank ") + what +
                                               " is no memory of this process (any more); keep buffers until their "
                                               "calls have ended");
}

}  // namespace tutti::transport
