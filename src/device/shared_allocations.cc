#include "device/shared_allocations.h"

#include <algorithm>
#include <random>

namespace tutti::device {

SharedAllocations::SharedAllocations() {
  std::random_device random;  // numbers of processes are not the same in all containers of a host
  process_ = std::uint64_t{random()} << 32 | random();
}

SharedAllocations& SharedAllocations::of_process() {
  static SharedAllocations* const kAllocations = new SharedAllocations;  // contexts may outlive static objects
  return *kAllocations;
}

bool SharedAllocations::show(const Driver& driver, const void* address, DevicePlace& place) {
  const auto at = reinterpret_cast<CuAddress>(address);
  CuAddress begin = 0;
  unsigned long long number = 0;
  int attributes[] = {kCuRangeStart, kCuBufferNumber};
  void* values[] = {&begin, &number};
  if (driver.cuPointerGetAttributes(2, attributes, values, at) != kCuSuccess || begin == 0) return false;
  if (number != 0 && place.allocation == number) {
    place.address = at;
    place.offset = at - begin;
    return true;
  }
  const std::lock_guard lock(mutex_);
  auto known = shown_.find(number);
  if (known == shown_.end()) {
    CuIpcHandle handle{};
    if (driver.cuIpcGetMemHandle(&handle, begin) != kCuSuccess) return false;
    if (shown_.size() == kMostShown) shown_.erase(shown_.begin());  // the oldest: numbers only grow
    known = shown_.emplace(number, handle.bytes).first;
  }
  place = {known->second, number, at, at - begin};
  return true;
}

void SharedAllocations::close(const Driver& driver, const Opened& opened) {
  closings_.fetch_add(1, std::memory_order_release);
  driver.cuIpcCloseMemHandle(opened.address);
}

std::byte* SharedAllocations::open(const Driver& driver, CuContext context, std::uint64_t process,
                                   const DevicePlace& place, Last& last) {
  if (process == process_) return reinterpret_cast<std::byte*>(place.address);
  const std::uint64_t closings = closings_.load(std::memory_order_acquire);
  const bool known = last.begin != nullptr && last.context == context && last.process == process &&
                     last.allocation == place.allocation && last.closings == closings;
  if (!known)
    last = {context, process, place.allocation, closings, open(driver, context, process, place) - place.offset};
  return last.begin + place.offset;
}

std::byte* SharedAllocations::open(const Driver& driver, CuContext context, std::uint64_t process,
                                   const DevicePlace& place) {
  if (process == process_) return reinterpret_cast<std::byte*>(place.address);
  const std::uint64_t base = place.address - place.offset;
  const std::lock_guard lock(mutex_);
  const auto same = [&](const Opened& each) {
    return each.context == context && each.process == process && each.base == base;
  };
  auto found = std::ranges::find_if(opened_, same);
  if (found != opened_.end() && found->allocation != place.allocation) {
    close(driver, *found);  // it has been freed, or there would be no other at its address
    opened_.erase(found);
    found = opened_.end();
  }
  if (found == opened_.end()) {
    if (opened_.size() == kMostOpen) {
      close(driver, opened_.back());
      opened_.pop_back();
    }
    CuAddress address = 0;
    driver.check(driver.cuIpcOpenMemHandle_v2(&address, CuIpcHandle{place.handle}, kCuLazyPeerAccess),
                 "opening memory of another process");
    found = opened_.insert(opened_.begin(), {context, process, base, place.allocation, address});
  } else {
    opened_.splice(opened_.begin(), opened_, found);
  }
  return reinterpret_cast<std::byte*>(found->address) + place.offset;
}

}  // namespace tutti::device
