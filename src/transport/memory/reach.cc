#include "transport/memory/reach.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

// Walks over pieces, so many bytes at a time.
class Walk {
 public:
  explicit Walk(std::span<const Piece> pieces) : pieces_(pieces) {}

  std::size_t left_in_piece() const { return pieces_[piece_].bytes - done_; }
  std::byte* here() const { return pieces_[piece_].data + done_; }
  bool over() {
    while (piece_ < pieces_.size() && done_ == pieces_[piece_].bytes) {
      ++piece_;
      done_ = 0;
    }
    return piece_ == pieces_.size();
  }
  void go(std::size_t bytes) { done_ += bytes; }

 private:
  std::span<const Piece> pieces_;
  std::size_t piece_ = 0, done_ = 0;
};

}  // namespace

Reach::Reach(pid_t process) : process_(process), same_(process == ::getpid()) {}

bool Reach::try_door(const Doorplate& plate) const {
  if (same_) return true;
  std::uint64_t word = 0;
  const std::uint64_t address = plate.address.load(std::memory_order_relaxed);
  const iovec to{&word, sizeof word}, from{reinterpret_cast<void*>(address), sizeof word};
  if (::process_vm_readv(process_, &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof word)) return false;
  return word == plate.word.load(std::memory_order_relaxed);
}

bool Reach::copy(std::span<const Piece> to, const Lent& lent) const {
  Walk target(to), source({lent.at, lent.pieces});
  while (!target.over() && !source.over()) {
    const std::size_t bytes = std::min(target.left_in_piece(), source.left_in_piece());
    std::size_t moved = bytes;
    if (same_) {
      std::memcpy(target.here(), source.here(), bytes);
    } else {
      const iovec here{target.here(), bytes}, there{source.here(), bytes};
      const ssize_t read = ::process_vm_readv(process_, &here, 1, &there, 1, 0);
      if (read < 0 && errno == ESRCH) return false;
      if (read <= 0) {
        throw Error(ErrorCode::system,
                    std::string("cannot read what a peer has lent (process_vm_readv): ") + std::strerror(errno));
      }
      moved = static_cast<std::size_t>(read);
    }
    target.go(moved);
    source.go(moved);
  }
  return true;
}

}  // namespace tutti::transport
