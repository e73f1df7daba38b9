#include "transport/memory/symmetric.h"

#include <string>

#include "base/home_process.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr int kOffsetBits = 48;
constexpr std::size_t kMaxAllocations = (std::size_t{1} << (64 - kOffsetBits)) - 1;

}  // namespace

std::byte* SymmetricMemory::Allocation::part(int rank) const {
  return static_cast<std::byte*>(mapping.base.get()) + kHeaderBytes + static_cast<std::size_t>(rank) * stride;
}

std::shared_ptr<void> SymmetricMemory::allocate(std::size_t bytes, const Deadline& deadline) {
  sweep();
  // Never reallocated: window() may be called from the progress thread while the caller allocates.
  if (allocations_.empty()) allocations_.reserve(kMaxAllocations);
  if (allocations_.size() == kMaxAllocations) {
    throw Error(ErrorCode::unsupported, "allocate: this communicator has made " + std::to_string(kMaxAllocations) +
                                            " symmetric allocations; make fewer, larger ones");
  }
  const auto ranks = static_cast<std::size_t>(mapper_->size());
  if (bytes > (std::size_t{1} << kOffsetBits) / ranks) {
    throw Error(ErrorCode::invalid_argument,
                "allocate: " + std::to_string(bytes) + " bytes per rank are more than can be");
  }
  const std::size_t stride = (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096;
  Allocation made{mapper_->map_shared(kHeaderBytes + ranks * stride, deadline), bytes, stride};
  allocations_.push_back(made);
  // The caller's handle keeps the mapping alive and says when this rank is done with it. A child that the rank forked
  // has a copy of the handle, and is not the rank.
  auto* header = static_cast<Header*>(made.mapping.base.get());
  std::byte* mine = made.part(mapper_->rank());
  return {mine, [mapping = made.mapping.base, header, home = HomeProcess()](std::byte*) {
            if (home.is_here()) header->dropped.fetch_add(1, std::memory_order_acq_rel);
          }};
}

MemoryRef SymmetricMemory::locate(const void* memory, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (std::size_t i = allocations_.size(); i-- > 0;) {
    const Allocation& allocation = allocations_[i];
    if (!allocation.mapping.base) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(allocation.part(mapper_->rank()));
    if (address >= begin && bytes <= allocation.bytes && address - begin <= allocation.bytes - bytes) {
      return (std::uint64_t{i + 1} << kOffsetBits) | (address - begin);
    }
  }
  return 0;
}

std::byte* SymmetricMemory::window(int rank, MemoryRef ref) const {
  const Allocation& allocation = allocations_[(ref >> kOffsetBits) - 1];
  return allocation.part(rank) + (ref & ((std::uint64_t{1} << kOffsetBits) - 1));
}

void SymmetricMemory::sweep() {
  for (Allocation& allocation : allocations_) {
    if (!allocation.mapping.base) continue;
    auto* header = static_cast<Header*>(allocation.mapping.base.get());
    if (header->dropped.load(std::memory_order_acquire) == static_cast<std::uint32_t>(mapper_->size())) {
      allocation.mapping = {};
    }
  }
}

}  // namespace tutti::transport
