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

  // A connection that stands: a connected, non-blocking socket, and what has come on it already.
  struct Made {
    int rank = 0;
    std::uint32_t channel = 0;
    FileDescriptor socket;
    std::vector<std::byte> first = {};
    std::uint64_t told = 0;  // how many news this process had told when it was made: see Control::left_at
  };
  // Somebody in a group that this process leaves.
  struct Member {
    int rank = 0;
    std::uint64_t left_at = 0;  // 0: it has not left
  };
  // Called on the control plane's thread.
  struct Hooks {
    // At most once for a connection.
    std::function<void(Made made)> linked;
    // It was wanted, but the rank is gone, and there never was one: nothing was sent, and nothing will be.
    std::function<void(int rank, std::uint32_t channel)> absent;
    // This process leaves the group, and tells it as soon as this returns.
    std::function<void(std::uint64_t group, const std::vector<Member>& members)> leaves;
    // Some times a second.
    std::function<void()> look;
    // A descriptor (an epoll), or -1, and what is called once when it becomes readable after arm().
    int readable = -1;
    std::function<void()> happened;
  };
  // Connections that others have asked for may stand before: they are told of then. After attach({}) returns nothing is
  // called any more.
  virtual void attach(Hooks hooks) = 0;
  // Any thread: asks for one Hooks::happened.
  virtual void arm() = 0;
};

}  // namespace tutti
