// What the ranks of a host need to share memory, made before they are forked: sockets to the first rank, and pipes that
// hang up when a rank ends.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::testing {

struct HostLinks {
  std::vector<FileDescriptor> sockets;  // rank 0: by peer; others: index 0
  std::vector<FileDescriptor> life;     // by peer; hangs up when the peer ends
  FileDescriptor own_life;              // to be kept open while this rank lives
};

class Wiring {
 public:
  explicit Wiring(int size) {
    for (int rank = 0; rank < size; ++rank) {
      sockets_.push_back(rank == 0 ? Pair{} : socket_pair());
      life_.push_back(pipe());
    }
  }

  // In the child: its own ends; the others are closed when this goes.
  HostLinks take(int rank) {
    HostLinks links;
    for (std::size_t peer = 0; peer < life_.size(); ++peer) {
      const bool own = static_cast<int>(peer) == rank;
      links.life.push_back(own ? FileDescriptor() : std::move(life_[peer].first));
      if (own) links.own_life = std::move(life_[peer].second);
      if (rank == 0) links.sockets.push_back(std::move(sockets_[peer].first));
    }
    if (rank != 0) links.sockets.push_back(std::move(sockets_[static_cast<std::size_t>(rank)].second));
    sockets_.clear();
    life_.clear();
    return links;
  }

 private:
  struct Pair {
    FileDescriptor first, second;
  };
  static Pair pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }
  static Pair socket_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }

  std::vector<Pair> sockets_;  // first: rank 0's end
  std::vector<Pair> life_;     // second: the rank's own end
};

}  // namespace tutti::testing
