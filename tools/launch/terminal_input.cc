#include "tools/launch/terminal_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/system_error.h"

namespace tutti::tools {

bool TerminalInput::is_needed() { return ::isatty(STDIN_FILENO) == 1; }

TerminalInput::TerminalInput() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe for the input of rank 0");
  reading_ = FileDescriptor(ends[0]);
  writing_ = FileDescriptor(ends[1]);
  ::fcntl(writing_.get(), F_SETFL, O_NONBLOCK);
}

void TerminalInput::read_some() {
  std::array<char, 4096> piece;
  const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
  if (got > 0) {
    typed_.assign(piece.data(), static_cast<std::size_t>(got));
    write_some();
  } else if (got < 0 && errno == EIO) {
    waiting_for_foreground_ = true;
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    writing_.reset();  // Ctrl-D: rank 0 sees the end, too
  }
}

void TerminalInput::write_some() {
  const ssize_t wrote = ::write(writing_.get(), typed_.data(), typed_.size());
  if (wrote > 0) {
    typed_.erase(0, static_cast<std::size_t>(wrote));
  } else if (wrote < 0 && errno != EAGAIN && errno != EINTR) {
    writing_.reset();  // rank 0 has closed its input
  }
}

}  // namespace tutti::tools
