// The processes of the ranks on this host: started, signalled, and waited for.
//
// Every rank leads a process group. A rank has *ended* when its own process has; its group is *over* when nothing of it
// is left: the launcher adopts what a rank leaves behind, so it learns of its end, too. Signals go to groups that are
// not over, whose numbers the system cannot have given to others. One thread; a resource.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/file_descriptor.h"
#include "tools/launch/ending.h"
#include "tools/launch/guard.h"
#include "tools/launch/process.h"
#include "tools/launch/signals.h"

namespace tutti::tools {

using Clock = std::chrono::steady_clock;

struct Member {
  int rank = 0;
  pid_t pid = -1;  // of its process and of its group
  Clock::time_point started;
  Clock::time_point ended;
  std::optional<Ending> ending;
  bool over = false;
};

class Crew {
 public:
  explicit Crew(const Signals& signals);
  // Kills and awaits whatever still runs.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Throws as start_process does.
  void start(int rank, const ProcessStart& start);
  void signal_all(int signal) const;
  // To be called on SIGCHLD: notes what has ended. Returns the members whose process has, by their number in members(),
  // in the order of their ends: the first is the one that others may have followed.
  std::vector<std::size_t> reap();

  // Neither signals nor awaits those that are left: the kernel holds them, not even SIGKILL ends them.
  void abandon();

  const std::vector<Member>& members() const { return members_; }
  bool all_ended() const;
  bool all_over() const;

 private:
  void reap_adopted();
  void note_groups_that_are_over();

  const Signals& signals_;
  Guard guard_;
  FileDescriptor ends_;  // an epoll of the members' pidfds, which keeps the order in which they became ready
  std::vector<Member> members_;
  std::vector<FileDescriptor> pidfds_;  // by member
};

}  // namespace tutti::tools
