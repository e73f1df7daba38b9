#include "tools/launch/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>

#include "base/system_error.h"

namespace tutti::tools {
namespace {

// Keeps nothing open but its pipe, which becomes descriptor 3.
void let_go_of_everything_but(int pipe) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  ::dup2(pipe, 3);
  ::close_range(4, ~0U, 0);
}

[[noreturn]] void stand_guard(int pipe) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "tutti-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  let_go_of_everything_but(pipe);
  std::set<pid_t> groups;
  pid_t word = 0;
  for (ssize_t got = 0; (got = ::read(3, &word, sizeof word)) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got < 0) continue;
    if (word > 0) groups.insert(word);
    if (word < 0) groups.erase(-word);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guard::Guard() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const FileDescriptor reading(ends[0]);
  words_ = FileDescriptor(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("cannot start a process");
  if (pid_ == 0) stand_guard(reading.get());
}

Guard::~Guard() {
  words_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::tell(pid_t message) const {
  // A guard that somebody killed cannot be told; the job goes on without it.
  [[maybe_unused]] const ssize_t wrote = ::write(words_.get(), &message, sizeof message);
}

}  // namespace tutti::tools
