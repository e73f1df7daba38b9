// Ranks as processes of one host: memory is a memfd that rank 0 makes, seals and hands over UNIX sockets.
//
// No name in any file system, so nothing to guess for others and nothing left behind after kill -9; not bound by the
// size of /dev/shm; mode 0600; sealed against shrinking, so that no peer can make a rank fault. A rank that ends before
// it has its share is found out later, by all: map_shared() is no place where one rank can tell the others.
#pragma once

#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/memory/mapper.h"

namespace tutti::transport {

struct ShmLinks {
  int rank = 0;
  int size = 1;
  // Rank 0: a UNIX socket to every other rank (index 0 unused). Others: one to rank 0, at index 0.
  std::vector<FileDescriptor> sockets;
  // Per peer a descriptor that hangs up or becomes readable when the peer's process ends; invalid for this rank itself.
  std::vector<FileDescriptor> life;
  // The ranks' numbers in the group they are part of; empty where they are all of it.
  std::vector<int> known_as;
};

std::unique_ptr<Mapper> make_shm_mapper(ShmLinks links);

}  // namespace tutti::transport
