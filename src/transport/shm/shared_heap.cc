#include "transport/shm/shared_heap.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/system_error.h"
#include "transport/memory/bells.h"
#include "transport/shm/descriptor_passing.h"

namespace tutti::transport {
namespace {

constexpr std::uint64_t kAlignBytes = 64 << 10;  // the largest page of any system that we run on
constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 48;

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

// A limit on the size of files holds for this one, too, and going beyond it ends the process.
std::uint64_t part_bytes_for(std::uint64_t ranks, std::uint64_t head_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kPartBytes;
  const std::uint64_t left = limit.rlim_cur > head_bytes ? limit.rlim_cur - head_bytes : 0;
  return std::min(kPartBytes, left / ranks / kAlignBytes * kAlignBytes);
}

}  // namespace

std::shared_ptr<SharedHeap> SharedHeap::make(ShmLinks links, const Deadline& deadline) {
  if (links.size > kMaxRanks) {
    throw Error(ErrorCode::unsupported,
                "shared memory holds at most " + std::to_string(kMaxRanks) + " ranks of a host");
  }
  for (const FileDescriptor& socket : links.sockets) {
    if (socket.valid()) require_same_user(socket.get());
  }
  const std::shared_ptr<SharedHeap> heap(new SharedHeap(std::move(links)));
  if (heap->rank() == 0) {
    heap->hand_out(deadline);
  } else {
    heap->take(deadline);
  }
  heap->links_.sockets.clear();
  heap->map_head();
  return heap;
}

void SharedHeap::create() {
  memory_ = FileDescriptor(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory_.valid()) throw_errno("memfd_create");
  if (::fchmod(memory_.get(), 0600) != 0) throw_errno("fchmod of shared memory");
  part_bytes_ = part_bytes_for(static_cast<std::uint64_t>(size()), round_up(sizeof(Head)));
  const std::uint64_t bytes = part_of(size());
  if (part_bytes_ == 0 || ::ftruncate(memory_.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno("sizing shared memory to " + std::to_string(bytes) + " bytes (see ulimit -f)");
  if (::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_errno("sealing shared memory");
}

// A peer that has ended gets nothing, and all others do: whoever waits for it finds out in the memory they share, and
// names it. Were this rank to give up here, the others would name this one.
void SharedHeap::hand_out(const Deadline& deadline) {
  create();
  for (int peer = 1; peer < size(); ++peer) {
    send_descriptor(links_.sockets[static_cast<std::size_t>(peer)].get(), memory_.get(), part_bytes_, known_as(peer),
                    deadline);
  }
}

void SharedHeap::take(const Deadline& deadline) {
  memory_ = receive_descriptor(links_.sockets[0].get(), &part_bytes_, known_as(0), deadline);
  struct stat facts {};
  if (::fstat(memory_.get(), &facts) != 0) throw_errno("fstat of shared memory");
  const int seals = ::fcntl(memory_.get(), F_GET_SEALS);
  const bool long_enough = part_bytes_ != 0 && part_bytes_ <= kPartBytes && part_bytes_ % kAlignBytes == 0 &&
                           static_cast<std::uint64_t>(facts.st_size) >= part_of(size());
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !long_enough) {
    throw Error(ErrorCode::system, "rank 0 handed over shared memory that is not sealed or too small", 0);
  }
}

void SharedHeap::map_head() {
  const auto mapped = map(0, sizeof(Head));
  head_ = {mapped, static_cast<Head*>(mapped.get())};
  Bells::register_process(head_->bells);
  free_.emplace(part_of(rank()), part_bytes_);
}

std::uint64_t SharedHeap::part_of(int rank) const {
  return round_up(sizeof(Head)) + static_cast<std::uint64_t>(rank) * part_bytes_;
}

bool SharedHeap::ended(int rank) const {
  const FileDescriptor& life = links_.life[static_cast<std::size_t>(rank)];
  pollfd entry{life.get(), POLLIN, 0};
  // A pipe hangs up, a pidfd becomes readable.
  return life.valid() && ::poll(&entry, 1, 0) > 0 && entry.revents != 0;
}

std::shared_ptr<Doorbells> SharedHeap::doorbells() { return {head_, &head_->bells}; }

std::shared_ptr<void> SharedHeap::map(std::uint64_t offset, std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), static_cast<off_t>(offset));
  if (base == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes of shared memory");
  return {base, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

std::uint64_t SharedHeap::make_block(std::size_t bytes, int users) {
  const std::uint64_t wanted = round_up(page_bytes() + bytes);
  std::uint64_t block = 0;
  {
    const std::lock_guard lock(mutex_);
    collect();
    const auto found =
        std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end() || wanted < bytes) {
      throw Error(ErrorCode::system, "shared memory: no room for " + std::to_string(bytes) + " bytes" +
                                         (part_bytes_ < kPartBytes ? " under the limit on the size of files; " : "") +
                                         (part_bytes_ < kPartBytes ? "raise it with ulimit -f" : ""));
    }
    block = found->first;
    const std::uint64_t left = found->second - wanted;
    free_.erase(found);
    if (left > 0) free_.emplace(block + wanted, left);
  }
  const auto mapped = map(block, page_bytes());
  auto* header = static_cast<BlockHeader*>(mapped.get());
  header->bytes.store(bytes, std::memory_order_relaxed);
  header->users.store(static_cast<std::uint32_t>(users), std::memory_order_release);
  return block;
}

Mapping SharedHeap::map_block(std::uint64_t block, std::size_t bytes) {
  if (block % kAlignBytes != 0 || block < part_of(0) || block >= part_of(size()) || bytes > part_of(size()) - block)
    throw Error(ErrorCode::system, "shared memory: there is no block of that place and size");
  const std::size_t whole = page_bytes() + bytes;
  void* const base =
      ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), static_cast<off_t>(block));
  if (base == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes of shared memory");
  const std::shared_ptr<void> owner(
      base, [heap = shared_from_this(), block, whole](void* mapped) { heap->leave(block, mapped, whole); });
  return {{owner, static_cast<std::byte*>(base) + page_bytes()}, bytes};
}

std::uint64_t SharedHeap::touched_bytes() const {
  struct stat facts {};
  if (::fstat(memory_.get(), &facts) != 0) throw_errno("fstat of shared memory");
  return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

BlockHeader& SharedHeap::header_of(const Mapping& mapping) {
  return *reinterpret_cast<BlockHeader*>(static_cast<std::byte*>(mapping.base.get()) - page_bytes());
}

void SharedHeap::leave(std::uint64_t block, void* mapped, std::size_t bytes) {
  if (home_.is_here()) {
    auto* header = static_cast<BlockHeader*>(mapped);
    // The owner sees what the last user has done to the header.
    const std::uint32_t left = header->left.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (left == header->users.load(std::memory_order_acquire)) {
      punch(block + page_bytes(), round_up(bytes) - page_bytes());
      auto& returned = head_->returned[(block - part_of(0)) / part_bytes_];
      std::uint64_t before = returned.load(std::memory_order_relaxed);
      do {
        header->next.store(before, std::memory_order_relaxed);
      } while (!returned.compare_exchange_weak(before, block, std::memory_order_release, std::memory_order_relaxed));
    }
  }
  ::munmap(mapped, bytes);
}

bool SharedHeap::punch(std::uint64_t offset, std::uint64_t bytes) const {
  return ::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
}

void SharedHeap::collect() {
  auto& returned = head_->returned[rank()];
  if (returned.load(std::memory_order_relaxed) == 0) return;
  for (std::uint64_t block = returned.exchange(0, std::memory_order_acquire); block != 0;) {
    std::uint64_t bytes = 0, next = 0;
    {
      const auto mapped = map(block, page_bytes());
      const auto* header = static_cast<const BlockHeader*>(mapped.get());
      bytes = round_up(page_bytes() + header->bytes.load(std::memory_order_relaxed));
      next = header->next.load(std::memory_order_relaxed);
    }
    if (punch(block, bytes)) put_back(block, bytes);  // what is not zeroed is not given out again
    block = next;
  }
}

void SharedHeap::put_back(std::uint64_t offset, std::uint64_t bytes) {
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace tutti::transport
