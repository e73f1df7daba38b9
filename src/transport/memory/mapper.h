// How the ranks of a host come to see the same memory, and notice a peer's end: all that threads and shm differ in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "transport/memory/doorbells.h"

namespace tutti::transport {

struct Mapping {
  std::shared_ptr<void> base;  // unmapped when the last copy goes
  std::size_t bytes = 0;
};

class Mapper;

// Makes groups of ranks of a group that need not meet again, because they share memory already. May outlive the mapper
// it came from; any thread may call it.
class Regrouping {
 public:
  virtual ~Regrouping() = default;
  // For the first rank of a new group of `size` ranks that need `bytes`: a place for it, which it tells the others.
  virtual std::uint64_t make_place(std::size_t bytes, int size) = 0;
  // The mapper of rank `rank` in the group that has these ranks of the old one, in that order. All pass the same place.
  // `known_as`: see Mapper; empty where they are all of their group.
  virtual std::unique_ptr<Mapper> part(std::uint64_t place, const std::vector<int>& members, int rank,
                                       const std::vector<int>& known_as = {}) = 0;
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
  // Of all ranks that share memory here, whatever groups they are in, and the number there of a rank of this one.
  virtual std::shared_ptr<Doorbells> doorbells() const = 0;
  virtual int doorbell_of(int rank) const = 0;
  virtual std::shared_ptr<Regrouping> regrouping() const = 0;
};

}  // namespace tutti::transport
