#include "transport/memory/reach.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "transport/memory/symmetric.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

// Between looks at who has given up: large enough for copies that go past the caches.
constexpr std::size_t kMostAtOnce = 32 << 20;

}  // namespace

Exposed Exposed::of(std::span<const Piece> pieces, const Located& within) {
  const bool symmetric = within.ref != 0 && (within.ref & kSymmetric) == 0;
  Exposed exposed;
  exposed.pieces = pieces.size();
  std::transform(pieces.begin(), pieces.end(), exposed.at, [&](const Piece& piece) {
    const std::uint64_t place = symmetric
                                    ? kSymmetric | (within.ref + static_cast<std::uint64_t>(piece.data - within.begin))
                                    : reinterpret_cast<std::uint64_t>(piece.data);
    return Stretch{place, piece.bytes};
  });
  return exposed;
}

Reach::Reach(pid_t process, int rank, const SymmetricMemory* symmetric, const std::atomic<std::uint64_t>* given_up)
    : process_(process), rank_(rank), symmetric_(symmetric), given_up_(given_up), same_(process == ::getpid()) {}

bool Reach::can_read(const MemoryProbe& probe) const {
  if (same_) return true;
  std::uint64_t word = 0;
  const std::uint64_t address = probe.address.load(std::memory_order_relaxed);
  const iovec to{&word, sizeof word}, from{reinterpret_cast<void*>(address), sizeof word};
  if (::process_vm_readv(process_, &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof word)) return false;
  return word == probe.word.load(std::memory_order_relaxed);
}

const std::byte* Reach::here(std::uint64_t place) const {
  if ((place & Exposed::kSymmetric) != 0) return symmetric_->window(rank_, place & ~Exposed::kSymmetric);
  return same_ ? reinterpret_cast<const std::byte*>(place) : nullptr;
}

std::size_t Reach::read(std::byte* to, std::uint64_t address, std::size_t bytes) const {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(address), bytes};
  const ssize_t read = ::process_vm_readv(process_, &local, 1, &remote, 1, 0);
  if (read > 0) return static_cast<std::size_t>(read);
  const int error = errno;
  if (error != ESRCH && given_up_->load(std::memory_order_acquire) == 0) {
    throw Error(ErrorCode::system,
                std::string("cannot read what a peer has exposed (process_vm_readv): ") + std::strerror(error));
  }
  return 0;
}

Arrival Reach::copy(std::span<const Piece> to, const Exposed& exposed, std::atomic<std::uint32_t>& copying) const {
  if (!same_) return copy_stretches(to, exposed);
  // Either this rank sees that the peer has given up, or the peer sees that it must wait: see abort().
  copying.store(1, std::memory_order_seq_cst);
  const Arrival arrival = copy_stretches(to, exposed);
  copying.store(0, std::memory_order_release);
  return arrival;
}

Arrival Reach::copy_stretches(std::span<const Piece> to, const Exposed& exposed) const {
  if (given_up_->load(std::memory_order_seq_cst) != 0) return Arrival::none;
  std::size_t piece = 0, landed = 0;  // where in `to` the next byte goes
  for (const Exposed::Stretch& stretch : std::span(exposed.at, exposed.pieces)) {
    const std::byte* const near = here(stretch.place);
    for (std::uint64_t done = 0; done < stretch.bytes;) {
      while (piece < to.size() && landed == to[piece].bytes) {
        ++piece;
        landed = 0;
      }
      if (piece == to.size()) break;
      std::byte* const target = to[piece].data + landed;
      std::size_t bytes = std::min<std::size_t>(to[piece].bytes - landed, stretch.bytes - done);
      if (near != nullptr) {
        bytes = std::min(bytes, kMostAtOnce);
        std::memcpy(target, near + done, bytes);
        if (given_up_->load(std::memory_order_relaxed) != 0) return Arrival::moved;
      } else {
        bytes = read(target, stretch.place + done, bytes);
        if (bytes == 0) return piece == 0 && landed == 0 ? Arrival::none : Arrival::moved;
      }
      landed += bytes;
      done += bytes;
    }
  }
  // Not before the last byte has been read: else a peer could give up and change it in between. See abort().
  std::atomic_thread_fence(std::memory_order_acquire);
  return given_up_->load(std::memory_order_relaxed) == 0 ? Arrival::whole : Arrival::moved;
}

}  // namespace tutti::transport
