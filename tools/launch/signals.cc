#include "tools/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/system_error.h"

namespace tutti::tools {
namespace {

// Passed on to the ranks, and those about children and the terminal.
constexpr int kTaken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

void dispose(int signal, void (*how)(int), struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = how;
  ::sigaction(signal, &action, &before);
}

}  // namespace

Signals::Signals() {
  dispose(SIGPIPE, SIG_IGN, pipe_before_);   // a reader that left is an error of write
  dispose(SIGTTIN, SIG_IGN, input_before_);  // as is a terminal that others are using
  dispose(SIGCHLD, SIG_DFL, child_before_);  // ignored, the kernel would forget how children ended
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : kTaken) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  ::sigprocmask(SIG_BLOCK, &taken, &before_);
  descriptor_ = FileDescriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.valid()) throw_errno("cannot wait for signals");
}

Signals::~Signals() { restore(); }

std::vector<int> Signals::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

void Signals::restore() const {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGTTIN, &input_before_, nullptr);
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace tutti::tools
