#include "tools/launch/relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/system_error.h"

namespace tutti::tools {

Relay::Relay(const std::string& prefix, Outlet& outlet) : lines_(prefix), outlet_(&outlet) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe for the output of a rank");
  reading_ = FileDescriptor(ends[0]);
  writing_ = FileDescriptor(ends[1]);
  ::fcntl(reading_.get(), F_SETFL, O_NONBLOCK);  // of our end alone
}

bool Relay::read_once() {
  std::array<char, 64 << 10> piece;
  const ssize_t got = ::read(reading_.get(), piece.data(), piece.size());
  if (got > 0) {
    lines_.feed({piece.data(), static_cast<std::size_t>(got)}, outlet_->queue());
    return true;
  }
  if (got < 0 && errno == EINTR) return true;
  if (got == 0 || errno != EAGAIN) close();
  return false;
}

void Relay::read_some() {
  if (open()) read_once();
}

void Relay::finish() {
  constexpr int kMostPieces = 64;  // somebody who escaped may write for ever
  for (int pieces = 0; open() && pieces < kMostPieces && read_once(); ++pieces) {
  }
  if (open()) close();
}

void Relay::close() {
  lines_.finish(outlet_->queue());
  reading_.reset();
}

}  // namespace tutti::tools
