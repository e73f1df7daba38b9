// Symmetric memory: allocations that every rank of the host maps, and the table that recognises them by address.
//
// An allocation is one mapping: a header, then `stride` bytes per rank. It is unmapped once every rank has dropped its
// part, because until then a peer may still name it; dead allocations are swept when the next one is made.
// allocate(), any() and locate() belong to the caller's thread; window() may be called from others.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "transport/memory/mapper.h"
#include "transport/transport.h"

namespace tutti::transport {

class SymmetricMemory {
 public:
  explicit SymmetricMemory(Mapper* mapper) : mapper_(mapper) {}

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline);
  // Whether there ever was an allocation: the same answer on all ranks, whenever each of them drops its parts.
  bool any() const { return !allocations_.empty(); }
  MemoryRef locate(const void* memory, std::size_t bytes) const;
  std::byte* window(int rank, MemoryRef ref) const;

 private:
  struct Header {
    std::atomic<std::uint32_t> dropped;  // ranks that are done with it
  };
  struct Allocation {
    Mapping mapping;
    std::size_t bytes = 0;   // asked for, per rank
    std::size_t stride = 0;  // per rank
    std::byte* part(int rank) const;
  };

  void sweep();

  Mapper* mapper_;
  // Index = allocation number - 1. Numbers are never reused, so that a late reference names nothing rather than
  // something else; ended ones stay as empty entries.
  std::vector<Allocation> allocations_;
};

}  // namespace tutti::transport
