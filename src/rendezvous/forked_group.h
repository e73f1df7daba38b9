// A group of forked processes, linked before they start: the simplest meeting there is.
//
// Every child has a socket to rank 0 (rank 0 one to each child) and, per peer, the reading end of a pipe whose writing
// end only that peer holds, which therefore hangs up when the peer ends, however it ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti::rendezvous {

struct GroupLinks {
  int rank = 0;
  int size = 1;
  std::vector<FileDescriptor> sockets;  // rank 0: by peer; others: index 0
  std::vector<FileDescriptor> life;     // by peer; hangs up when the peer ends
  FileDescriptor own_life;              // to be kept open while this rank lives
};

// The ending of a child: exit code or signal, and the words it left.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;
  std::string message;
};

class ForkedGroup {
 public:
  // Forks `size` children; each runs `body` with its links and then exits: with 0, or with 1 and the words of what
  // `body` threw. Throws Error(system) when the system refuses; children already started are ended then.
  ForkedGroup(int size, const std::function<void(GroupLinks)>& body);
  ~ForkedGroup();

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  // Waits until all children have ended.
  std::vector<ChildEnd> wait();

 private:
  void end_all();

  std::vector<pid_t> pids_;
  std::vector<FileDescriptor> words_;  // by child: the reading end of its pipe for words
};

}  // namespace tutti::rendezvous
