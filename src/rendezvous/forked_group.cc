#include "rendezvous/forked_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <exception>

#include "base/system_error.h"

namespace tutti::rendezvous {
namespace {

struct Pair {
  FileDescriptor first, second;
};

Pair make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe (too many open files?)");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Pair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair (too many open files?)");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// All descriptors of a group, made before the first fork; a child takes its own and closes the rest by dropping this.
struct Wiring {
  std::vector<Pair> sockets;  // first: rank 0's end
  std::vector<Pair> life;     // second: the rank's own end
  std::vector<Pair> words;    // second: the rank's own end

  explicit Wiring(int size) {
    for (int rank = 0; rank < size; ++rank) {
      sockets.push_back(rank == 0 ? Pair{} : make_socket_pair());
      life.push_back(make_pipe());
      words.push_back(make_pipe());
    }
  }

  GroupLinks links_of(int rank) {
    GroupLinks links;
    links.rank = rank;
    links.size = static_cast<int>(life.size());
    for (std::size_t peer = 0; peer < life.size(); ++peer) {
      const bool own = static_cast<int>(peer) == rank;
      links.life.push_back(own ? FileDescriptor() : std::move(life[peer].first));
      if (own) links.own_life = std::move(life[peer].second);
      if (rank == 0) links.sockets.push_back(std::move(sockets[peer].first));
    }
    if (rank != 0) links.sockets.push_back(std::move(sockets[static_cast<std::size_t>(rank)].second));
    return links;
  }
};

[[noreturn]] void run_child(int rank, Wiring& wiring, const std::function<void(GroupLinks)>& body) {
  GroupLinks links = wiring.links_of(rank);
  const FileDescriptor words = std::move(wiring.words[static_cast<std::size_t>(rank)].second);
  wiring = Wiring(0);
  std::string message;
  try {
    body(std::move(links));
    std::fflush(nullptr);
    ::_exit(0);
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception of unknown type";
  }
  std::fflush(nullptr);
  const ssize_t written = ::write(words.get(), message.data(), message.size());
  ::_exit(written < 0 ? 2 : 1);
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

}  // namespace

ForkedGroup::ForkedGroup(int size, const std::function<void(GroupLinks)>& body) {
  Wiring wiring(size);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) {
      end_all();
      throw_errno("fork of rank " + std::to_string(rank));
    }
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no child outlives the one that waits for it
      if (::getppid() != parent) ::_exit(1);
      run_child(rank, wiring, body);
    }
    pids_.push_back(pid);
  }
  for (Pair& pair : wiring.words) words_.push_back(std::move(pair.first));
}

ForkedGroup::~ForkedGroup() { end_all(); }

std::vector<ChildEnd> ForkedGroup::wait() {
  std::vector<ChildEnd> ends;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    ChildEnd end;
    end.message = read_all(words_[rank].get());
    int status = 0;
    while (::waitpid(pids_[rank], &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    ends.push_back(std::move(end));
  }
  pids_.clear();
  return ends;
}

void ForkedGroup::end_all() {
  for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
  for (const pid_t pid : pids_) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pids_.clear();
}

}  // namespace tutti::rendezvous
