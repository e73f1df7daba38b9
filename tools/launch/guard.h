// A process that outlives the launcher by a moment: where the launcher is killed, it kills the ranks' process groups.
//
// Each rank asks the kernel to die with the launcher, but what a rank started in turn does not. The guard holds the
// reading end of a pipe whose only writing end the launcher holds; the pipe hangs up however the launcher ends.
#pragma once

#include <sys/types.h>

#include "base/file_descriptor.h"

namespace tutti::tools {

class Guard {
 public:
  Guard();
  // Ends the guard; groups that were not released are killed.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group) const { tell(group); }
  void release(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;

  pid_t pid_ = -1;
  FileDescriptor words_;
};

}  // namespace tutti::tools
