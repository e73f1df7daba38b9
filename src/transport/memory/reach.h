// Reading a peer's own memory: out of another process by a system call, within one process as it is.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "transport/transport.h"

namespace tutti::transport {

class SymmetricMemory;

// Where the pieces of a message lie that its sender has exposed.
struct Exposed {
  // An address of the sender's, or the bit and a MemoryRef: symmetric memory is read without the system's help.
  static constexpr std::uint64_t kSymmetric = std::uint64_t{1} << 63;
  struct Stretch {
    std::uint64_t place;
    std::uint64_t bytes;
  };

  static Exposed of(std::span<const Piece> pieces, const Located& within);

  std::uint64_t pieces;
  Stretch at[kMostExposedPieces];
};

// What a rank shows of itself, so that others can try whether they may read its memory.
struct alignas(64) MemoryProbe {
  std::atomic<std::uint64_t> process;
  std::atomic<std::uint64_t> address;  // of a word of the process's own
  std::atomic<std::uint64_t> word;     // and what is written there
};

// The memory of one peer.
class Reach {
 public:
  // `given_up`: set once some rank has failed.
  Reach(pid_t process, int rank, const SymmetricMemory* symmetric, const std::atomic<std::uint64_t>* given_up);

  // Whether the word can be read where the peer says it is: else permissions, containers or the system forbid it.
  bool can_read(const MemoryProbe& probe) const;
  // Copies what was exposed; both sides hold as many bytes. `none` and `moved` (a part of it has come) where the peer's
  // process has ended or some rank has given up: then the peer's caller may have changed what was exposed, or freed
  // it. So that it is not freed under the copy where the peer is a thread, `copying` is set meanwhile. Throws
  // Error(system).
  Arrival copy(std::span<const Piece> to, const Exposed& from, std::atomic<std::uint32_t>& copying) const;

 private:
  Arrival copy_stretches(std::span<const Piece> to, const Exposed& from) const;
  // How many bytes of the peer's own memory the system has copied; 0 where that is gone for one of copy()'s reasons.
  std::size_t read(std::byte* to, std::uint64_t address, std::size_t bytes) const;
  // Where a stretch begins in this process; nullptr where only the system can read it.
  const std::byte* here(std::uint64_t place) const;

  pid_t process_;
  int rank_;
  const SymmetricMemory* symmetric_;
  const std::atomic<std::uint64_t>* given_up_;
  bool same_;  // the peer is a thread of this process
};

}  // namespace tutti::transport
