// The heap that ranks of a host share: blocks are seen by all, and what all have left can be had again.
#include "transport/shm/shared_heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "transport/harness.h"

namespace tutti::transport {
namespace {

using testing::soon;

std::shared_ptr<SharedHeap> heap_of_one() {
  ShmLinks links;
  links.life.resize(1);
  return SharedHeap::make(std::move(links), soon());
}

// Two ranks, in one process.
std::pair<std::shared_ptr<SharedHeap>, std::shared_ptr<SharedHeap>> heap_of_two() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ShmLinks first, second;
  first.size = second.size = 2;
  second.rank = 1;
  first.sockets.resize(2);
  first.sockets[1] = FileDescriptor(ends[0]);
  second.sockets.push_back(FileDescriptor(ends[1]));
  first.life.resize(2);
  second.life.resize(2);
  std::shared_ptr<SharedHeap> theirs;
  std::thread other([&] { theirs = SharedHeap::make(std::move(second), soon()); });
  auto mine = SharedHeap::make(std::move(first), soon());
  other.join();
  return {mine, theirs};
}

char* bytes_of(const Mapping& mapping) { return static_cast<char*>(mapping.base.get()); }

TEST(SharedHeap, ABlockIsTheSameMemoryForAllAndZeroAtFirst) {
  const auto [mine, theirs] = heap_of_two();
  const std::uint64_t block = mine->make_block(100'000, 2), other = theirs->make_block(100'000, 2);
  EXPECT_NE(block, other);
  const Mapping here = mine->map_block(block, 100'000), there = theirs->map_block(block, 100'000);
  const Mapping apart = mine->map_block(other, 100'000);
  EXPECT_EQ(bytes_of(there)[99'999], 0);
  bytes_of(here)[99'999] = 7;
  EXPECT_EQ(bytes_of(there)[99'999], 7);
  EXPECT_EQ(bytes_of(apart)[99'999], 0);
}

TEST(SharedHeap, WhatAllHaveLeftGoesBackAndIsZeroWhenItIsGivenOutAgain) {
  const auto [mine, theirs] = heap_of_two();
  constexpr std::size_t kBytes = 10 << 20;
  const std::uint64_t before = mine->touched_bytes();
  const std::uint64_t block = mine->make_block(kBytes, 2);
  {
    const Mapping there = theirs->map_block(block, kBytes);
    {
      const Mapping here = mine->map_block(block, kBytes);
      std::fill_n(bytes_of(here), kBytes, 'x');
    }
    EXPECT_GE(mine->touched_bytes(), before + kBytes) << "one of the two still has it";
    EXPECT_NE(mine->make_block(kBytes, 1), block);
  }
  EXPECT_LT(mine->touched_bytes(), before + kBytes / 2);
  EXPECT_EQ(mine->make_block(kBytes, 1), block);
  const Mapping again = mine->map_block(block, kBytes);
  EXPECT_EQ(bytes_of(again)[0], 0);
  EXPECT_EQ(bytes_of(again)[kBytes - 1], 0);
}

TEST(SharedHeap, NeighboursThatAreLeftMakeOnePlace) {
  const auto heap = heap_of_one();
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<std::uint64_t> places;
  std::vector<Mapping> blocks;
  for (int i = 0; i < 4; ++i) {
    places.push_back(heap->make_block(kBytes, 1));
    blocks.push_back(heap->map_block(places.back(), kBytes));
  }
  blocks[0] = blocks[2] = blocks[1] = {};  // in another order than they lie
  EXPECT_EQ(heap->make_block(3 * kBytes, 1), places[0]);
  EXPECT_GT(heap->make_block(kBytes, 1), places[3]) << "the one that is in use is not given out";
}

TEST(SharedHeap, AForkedChildIsNoUser) {
  const auto heap = heap_of_one();
  const std::uint64_t block = heap->make_block(1000, 1);
  Mapping mapping = heap->map_block(block, 1000);
  bytes_of(mapping)[0] = 7;
  const pid_t child = ::fork();
  if (child == 0) {
    mapping = {};
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_NE(heap->make_block(1000, 1), block);
  EXPECT_EQ(bytes_of(mapping)[0], 7);
}

TEST(SharedHeap, APlaceThatIsNoneIsRefused) {
  const auto heap = heap_of_one();
  for (const std::uint64_t place : {std::uint64_t{0}, heap->first_block() + 1, std::uint64_t{1} << 62})
    EXPECT_THROW(heap->map_block(place, 1000), Error) << place;
  EXPECT_THROW(heap->make_block(std::size_t{1} << 60, 1), Error);
}

// Going beyond the limit would end the process: the heap is as long as the limit allows.
TEST(SharedHeap, KeepsToALimitOnFiles) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{64 << 20, 64 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto heap = heap_of_one();
    heap->make_block(1 << 20, 1);
    bool said = false;
    try {
      heap->make_block(100 << 20, 1);
    } catch (const Error& error) {
      said = std::string(error.what()).find("ulimit -f") != std::string::npos;
    }
    ::_exit(said ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tutti::transport
