#include "rendezvous/forked_group.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <exception>

#include "base/system_error.h"
#include "rendezvous/host.h"

namespace tutti::rendezvous {
namespace {

[[noreturn]] void run_child(int rank, int words, const std::function<void(int)>& body) {
  std::string message;
  try {
    body(rank);
    std::fflush(nullptr);
    ::_exit(0);
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception of unknown type";
  }
  std::fflush(nullptr);
  const ssize_t written = ::write(words, message.data(), message.size());
  ::_exit(written < 0 ? 2 : 1);
}

}  // namespace

std::string in_words(const ChildEnd& end) {
  if (end.signal != 0) return "was killed by signal " + std::to_string(end.signal);
  return "exited with code " + std::to_string(end.exit_code);
}

ForkedGroup::ForkedGroup(int size, const std::function<void(int)>& body) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  try {
    for (int rank = 0; rank < size; ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("pipe (too many open files?)");
      words_.emplace_back(ends[0]);
      const FileDescriptor writing(ends[1]);
      const pid_t pid = ::fork();
      if (pid < 0) throw_errno("fork of rank " + std::to_string(rank));
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no child outlives the one that waits for it
        if (::getppid() != parent) ::_exit(1);
        words_.clear();
        lives_.clear();
        run_child(rank, writing.get(), body);
      }
      pids_.push_back(pid);
      lives_.push_back(watch_process(pid));
    }
  } catch (const Error&) {
    end_all();
    throw;
  }
}

ForkedGroup::~ForkedGroup() { end_all(); }

ChildEnd ForkedGroup::reap(std::size_t rank) {
  ChildEnd end;
  // All that is there now: a child of the child may keep the pipe open for ever.
  end.message = read_all(words_[rank].get());
  int status = 0;
  while (::waitpid(pids_[rank], &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  pids_[rank] = -1;
  return end;
}

std::vector<ChildEnd> ForkedGroup::wait(const Meanwhile& meanwhile) {
  std::vector<ChildEnd> ends(pids_.size());
  std::vector<pollfd> entries;
  for (const FileDescriptor& life : lives_) entries.push_back({life.get(), POLLIN, 0});
  entries.push_back({meanwhile.descriptor, POLLIN, 0});
  for (std::size_t running = pids_.size(); running > 0;) {
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) throw_errno("waiting for children");
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (entries[rank].fd < 0 || entries[rank].revents == 0) continue;
      entries[rank].fd = -1;
      --running;
      ends[rank] = reap(rank);
      if (meanwhile.ended) meanwhile.ended(static_cast<int>(rank), ends[rank]);
    }
    if (entries.back().revents != 0 && meanwhile.ready) meanwhile.ready();
  }
  return ends;
}

void ForkedGroup::end_all() {
  std::erase(pids_, -1);
  for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
  for (const pid_t pid : pids_) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pids_.clear();
}

}  // namespace tutti::rendezvous
