// The memory that the ranks of a host share, for all groups among them: one memfd, which the first of them makes, seals
// and hands over UNIX sockets, once.
//
// No name in any file system, so nothing to guess for others and nothing left behind after kill -9; not bound by the
// size of /dev/shm; mode 0600; sealed against shrinking, so that no peer can make a rank fault. It is as long as
// anybody could ever want, and only touched pages count.
//
// A rank gives out *blocks* of a part of the file that is its own, so that no lock is shared with a process that may
// die with it; other ranks map them by their place in the file. When the last user of a block has unmapped it, its
// pages go back to the system at once, and its place to the rank that gave it out.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/home_process.h"
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

// At the beginning of a block, in a page of its own.
struct BlockHeader {
  std::atomic<std::uint64_t> bytes;  // behind this page
  std::atomic<std::uint32_t> users;  // ranks that are going to map it, each once
  std::atomic<std::uint32_t> left;   // those that have unmapped it
  std::atomic<std::uint64_t> next;   // once all have: the block that was given back before, or 0
  // What the first rank of a group tells the others, in the block that is their arena: the block to map next.
  std::atomic<std::uint64_t> posted;        // how many it has told of so far
  std::atomic<std::uint64_t> posted_block;  // 0: there is none, because none could be had
  std::atomic<std::uint64_t> taken;         // how often the others have read it
};

// Any thread may call it.
class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  // Collective. Throws Error.
  static std::shared_ptr<SharedHeap> make(ShmLinks links, const Deadline& deadline);
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  int rank() const { return links_.rank; }
  int size() const { return links_.size; }
  int known_as(int rank) const {
    return links_.known_as.empty() ? rank : links_.known_as[static_cast<std::size_t>(rank)];
  }
  // Whether the rank's process has ended. Makes system calls.
  bool ended(int rank) const;
  std::shared_ptr<Doorbells> doorbells();

  // The place of a new block, for so many users. Throws Error(system).
  std::uint64_t make_block(std::size_t bytes, int users);
  // Where the first block is that rank 0 makes, which nobody has to be told.
  std::uint64_t first_block() const { return part_of(0); }
  // Zeroed until somebody writes there. Throws Error(system).
  Mapping map_block(std::uint64_t block, std::size_t bytes);
  // Of all ranks: what counts as memory.
  std::uint64_t touched_bytes() const;
  // Of a block that is mapped.
  static BlockHeader& header_of(const Mapping& mapping);

 private:
  // At the beginning of the file.
  struct Head {
    std::atomic<std::uint64_t> returned[kMaxRanks];  // by rank: the block of its part that was given back last
    Doorbells bells;
  };

  explicit SharedHeap(ShmLinks links) : links_(std::move(links)) {}
  void create();
  void hand_out(const Deadline& deadline);
  void take(const Deadline& deadline);
  void map_head();
  std::uint64_t part_of(int rank) const;
  std::shared_ptr<void> map(std::uint64_t offset, std::size_t bytes);
  // Called when this process is done with the block.
  void leave(std::uint64_t block, void* mapped, std::size_t bytes);
  // Gives the pages back, which are zero afterwards; whether the system did it.
  bool punch(std::uint64_t offset, std::uint64_t bytes) const;
  // Takes back what all users have left; mutex_ is held.
  void collect();
  void put_back(std::uint64_t offset, std::uint64_t bytes);

  ShmLinks links_;
  HomeProcess home_;  // a child that is forked has copies of mappings, and is no user
  FileDescriptor memory_;
  std::uint64_t part_bytes_ = 0;
  std::shared_ptr<Head> head_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> free_;  // of this rank's part: offset -> bytes, never two that touch
};

}  // namespace tutti::transport
