// How the ranks of a host come to see the same memory, and notice a peer's end: all that threads and shm differ in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/deadline.h"

namespace tutti::transport {

struct Mapping {
  std::shared_ptr<void> base;  // unmapped when the last copy goes
  std::size_t bytes = 0;
};

class Mapper;

// Makes smaller groups of ranks that need not meet again, because they see each other's memory as it is. May outlive
// the mapper it came from; any thread may call it.
class Regrouping {
 public:
  virtual ~Regrouping() = default;
  // The mapper of one rank of a new group of `size`: all ranks of that group pass the same key, no others do.
  virtual std::unique_ptr<Mapper> part(std::uint64_t key, int rank, int size) = 0;
};

class Mapper {
 public:
  virtual ~Mapper() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The number by which people know the rank: another one where these ranks are part of a larger group.
  virtual int known_as(int rank) const { return rank; }
  // Collective: new zeroed memory that all ranks see. Throws Error.
  virtual Mapping map_shared(std::size_t bytes, const Deadline& deadline) = 0;
  // Whether the peer's process has ended. Makes system calls.
  virtual bool ended(int peer) = 0;
  // nullptr where ranks have to meet.
  virtual std::shared_ptr<Regrouping> regrouping() const { return nullptr; }
};

}  // namespace tutti::transport
