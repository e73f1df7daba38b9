#include "tools/launch/outlet.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

namespace tutti::tools {
namespace {

constexpr std::size_t kFilePieceBytes = 256 << 10;

bool is_file(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

bool colours_are_wanted(int fd) {
  const char* terminal = std::getenv("TERM");
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(fd) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb" &&
         (refused == nullptr || *refused == '\0');
}

}  // namespace

Outlet::Outlet(int fd)
    : fd_(fd), piece_bytes_(is_file(fd) ? kFilePieceBytes : PIPE_BUF), shows_colours_(colours_are_wanted(fd)) {}

std::size_t Outlet::next_bytes() const {
  const std::size_t left = queue_.size() - sent_;
  if (left <= piece_bytes_) return left;
  const std::size_t newline = queue_.rfind('\n', sent_ + piece_bytes_ - 1);
  return newline == std::string::npos || newline < sent_ ? piece_bytes_ : newline + 1 - sent_;
}

void Outlet::write_some() {
  const ssize_t wrote = ::write(fd_, queue_.data() + sent_, next_bytes());
  if (wrote < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    failure_ = errno;
    queue_.clear();
    sent_ = 0;
    return;
  }
  sent_ += static_cast<std::size_t>(wrote);
  if (sent_ == queue_.size()) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > kMostQueuedBytes) {
    queue_.erase(0, sent_);
    sent_ = 0;
  }
}

}  // namespace tutti::tools
