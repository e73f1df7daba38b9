// A group of forked processes: started together, waited for together, and ended together with whoever started them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti::rendezvous {

// The ending of a child: exit code or signal, and the words it left.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;
  std::string message;

  bool ok() const { return exit_code == 0 && signal == 0; }
};

// "was killed by signal 9", "exited with code 1".
std::string in_words(const ChildEnd& end);

// What ForkedGroup::wait attends to besides the children.
struct Meanwhile {
  int descriptor = -1;
  std::function<void()> ready;                               // the descriptor is readable
  std::function<void(int rank, const ChildEnd& end)> ended;  // as soon as a child has
};

class ForkedGroup {
 public:
  // Forks `size` children; each runs `body` with its rank and then exits: with 0, or with 1 and the words of what
  // `body` threw. Throws Error(system) when the system refuses; children already started are ended then.
  ForkedGroup(int size, const std::function<void(int rank)>& body);
  ~ForkedGroup();

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

  // Waits until all children have ended.
  std::vector<ChildEnd> wait(const Meanwhile& meanwhile = {});

 private:
  ChildEnd reap(std::size_t rank);
  void end_all();

  std::vector<pid_t> pids_;            // by rank; -1 once waited for
  std::vector<FileDescriptor> lives_;  // pidfds
  std::vector<FileDescriptor> words_;  // the reading ends of the children's pipes for words
};

}  // namespace tutti::rendezvous
