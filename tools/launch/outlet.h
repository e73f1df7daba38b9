// One of the launcher's own streams: a queue of whole lines that never makes the launcher wait.
//
// The descriptor is shared with whoever started the launcher, so it stays in the mode it is in: a write follows a poll
// and is small enough that a pipe takes it at once. Whole lines are written together where they fit.
#pragma once

#include <cerrno>
#include <cstddef>
#include <string>

namespace tutti::tools {

class Outlet {
 public:
  explicit Outlet(int fd);

  // Whether the descriptor is a terminal that shows colours.
  bool shows_colours() const { return shows_colours_; }
  int descriptor() const { return fd_; }
  // Lines go in here; they are lost where a write has failed.
  std::string& queue() {
    if (failure_ != 0) queue_.clear();
    return queue_;
  }
  bool pending() const { return failure_ == 0 && sent_ < queue_.size(); }
  // Where it is false the ranks have to wait until the reader of this stream has caught up.
  bool has_room() const { return queue_.size() - sent_ < kMostQueuedBytes; }
  // Nobody reads any more.
  bool broken() const { return failure_ == EPIPE; }
  // The number of the error that made lines get lost (a full disk); 0 where none did.
  int trouble() const { return broken() ? 0 : failure_; }
  // To be called when poll says that the descriptor takes bytes.
  void write_some();

 private:
  static constexpr std::size_t kMostQueuedBytes = 1 << 20;

  std::size_t next_bytes() const;

  int fd_;
  std::size_t piece_bytes_;
  bool shows_colours_ = false;
  int failure_ = 0;  // the error of the write that failed
  std::string queue_;
  std::size_t sent_ = 0;  // of the queue
};

}  // namespace tutti::tools
