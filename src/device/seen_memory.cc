#include "device/seen_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::device {
namespace {

// Asked of the system, because looking would end the process.
bool is_readable(const void* address) {
  std::byte byte{};
  const iovec to{&byte, 1}, from{const_cast<void*>(address), 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

}  // namespace

const SeenMemory::Allocation* SeenMemory::find(const void* address) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (const Allocation& allocation : seen_) {
    if (place >= allocation.begin && place < allocation.end) return &allocation;
  }
  return nullptr;
}

void SeenMemory::note(const Driver& driver, const void* address, int device) {
  if (const Allocation* const known = find(address); known != nullptr && known->device == device) return;
  CuAddress begin = 0;
  std::size_t bytes = 0;
  int attributes[] = {kCuRangeStart, kCuRangeBytes};
  void* values[] = {&begin, &bytes};
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  if (driver.cuPointerGetAttributes(2, attributes, values, place) != kCuSuccess || bytes == 0) return;
  if (seen_.size() < kMostSeen) {
    seen_.push_back({begin, begin + bytes, device});
  } else {
    seen_[next_++ % kMostSeen] = {begin, begin + bytes, device};
  }
}

int SeenMemory::was_on(const void* address) const {
  const Allocation* const known = find(address);
  return known == nullptr || is_readable(address) ? kOnHost : known->device;
}

}  // namespace tutti::device
