// Connections between the processes of a job, made when they are first wanted. Implemented by the control plane
// (src/rendezvous), which knows where everybody listens; used by whatever moves data over them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti {

class Links {
 public:
  virtual ~Links() = default;

  // Any thread, any number of times: a connection with the rank is to be there, one for each channel. Whoever wants it
  // first, it is the same at both ends.
  virtual void want(int rank, std::uint32_t channel) = 0;

  // Called on the control plane's thread.
  struct Hooks {
    // It stands: a connected, non-blocking socket, and what has come on it already. At most once for a connection.
    std::function<void(int rank, std::uint32_t channel, FileDescriptor socket, std::vector<std::byte> first)> linked;
    // It was wanted, but the rank has left, and there never was one: nothing was sent, and nothing will be.
    std::function<void(int rank, std::uint32_t channel)> absent;
  };
  // Connections that others have asked for may stand before: they are told of then. After attach({}) returns nothing is
  // called any more.
  virtual void attach(Hooks hooks) = 0;
};

}  // namespace tutti
