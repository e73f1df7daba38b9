#include "device/pinned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <string>

#include "tutti/error.h"

namespace tutti::device {

namespace {

constexpr std::size_t kSmallestBlock = 64 << 10;

}  // namespace

PinnedMemory::~PinnedMemory() {
  for (const Block& block : kept_) release(block);
}

PinnedMemory::Block PinnedMemory::take(std::size_t bytes) {
  std::vector<Block> too_many;
  const std::size_t wanted = std::bit_ceil(std::max(bytes, kSmallestBlock));
  Block found;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Block& block) { return block.bytes == wanted; };
    if (const auto it = std::find_if(kept_.rbegin(), kept_.rend(), fits); it != kept_.rend()) {
      found = *it;
      kept_.erase(std::next(it).base());
      kept_bytes_ -= found.bytes;
    }
    while (kept_bytes_ > kMostKept) {
      too_many.push_back(kept_.front());
      kept_bytes_ -= kept_.front().bytes;
      kept_.erase(kept_.begin());
    }
  }
  for (const Block& block : too_many) release(block);
  if (found.data != nullptr) return found;
  void* const pages = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw Error(ErrorCode::system, "no host memory for " + std::to_string(wanted) +
                                       " bytes that stand in for buffers in device memory while they are moved");
  }
  ::madvise(pages, wanted, MADV_HUGEPAGE);
  const bool registered = driver_->cuMemHostRegister_v2(pages, wanted, kCuPortable) == kCuSuccess;
  return {static_cast<std::byte*>(pages), wanted, registered};
}

void PinnedMemory::give_back(const Block& block) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(block);
  kept_bytes_ += block.bytes;
}

void PinnedMemory::require_registered(Block& block) const {
  if (block.registered) return;
  const CuResult result = driver_->cuMemHostRegister_v2(block.data, block.bytes, kCuPortable);
  block.registered = result == kCuSuccess;
  if (!block.registered) {
    driver_->check(result,
                   "registering host memory, which an async call on device memory needs where it holds a stream, and "
                   "a blocking one does not,");
  }
}

void PinnedMemory::release(const Block& block) const {
  if (block.registered) driver_->cuMemHostUnregister(block.data);
  ::munmap(block.data, block.bytes);
}

}  // namespace tutti::device
