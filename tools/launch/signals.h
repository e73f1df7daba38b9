// The launcher's signals as a descriptor, so that one poll waits for them and for everything else.
//
// While an object lives, its signals are blocked and arrive through the descriptor only. A signal that was ignored when
// the launcher began (nohup, background jobs) stays ignored. A resource; one at a time.
#pragma once

#include <csignal>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti::tools {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  // Those that have arrived, in no particular order; does not block.
  std::vector<int> take();
  // What was in force before this object was made; for a child between fork and exec. Async-signal-safe.
  void restore() const;

 private:
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  struct sigaction input_before_ {};
  struct sigaction child_before_ {};
  FileDescriptor descriptor_;
};

}  // namespace tutti::tools
