#include "device/shared_allocations.h"

#include <algorithm>
#include <random>

#include "device/kept_contexts.h"

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
  std::size_t bytes = 0;
  int attributes[] = {kCuRangeStart, kCuBufferNumber, kCuRangeBytes};
  void* values[] = {&begin, &number, &bytes};
  if (driver.cuPointerGetAttributes(3, attributes, values, at) != kCuSuccess || begin == 0) return false;
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
  place = {known->second, number, bytes, at, at - begin};
  return true;
}

bool SharedAllocations::begin_use(Mapping& mapping) {
  int users = mapping.users.load(std::memory_order_relaxed);
  do {
    if (users == kClosed) return false;
  } while (!mapping.users.compare_exchange_weak(users, users + 1, std::memory_order_acquire));
  return true;
}

bool SharedAllocations::close(const Driver& driver, Mapping& mapping) {
  int nobody = 0;
  if (!mapping.users.compare_exchange_strong(nobody, kClosed, std::memory_order_acq_rel)) return false;
  driver.cuIpcCloseMemHandle(mapping.address);
  return true;
}

template <class Unwanted>
void SharedAllocations::close_all(const Driver& driver, Unwanted&& unwanted) {
  std::erase_if(open_, [&](const auto& each) { return unwanted(*each) && close(driver, *each); });
}

SharedAllocations::Opened SharedAllocations::open(const Driver& driver, CuContext context, std::uint64_t process,
                                                  const DevicePlace& place, Last& last) {
  if (process == process_) return Opened(reinterpret_cast<std::byte*>(place.address));
  const Mapping* const known = last.mapping.get();
  const bool same = known != nullptr && known->context == context && known->process == process &&
                    known->allocation == place.allocation;
  if (!same || !begin_use(*last.mapping)) last.mapping = find(driver, context, process, place);
  return {last.mapping, place.offset};
}

// In use already. What overlaps it has been freed, or it could not be where it is.
std::shared_ptr<SharedAllocations::Mapping> SharedAllocations::find(const Driver& driver, CuContext context,
                                                                    std::uint64_t process, const DevicePlace& place) {
  const std::uint64_t base = place.address - place.offset;
  const std::lock_guard lock(mutex_);
  const auto theirs = [&](const Mapping& each) { return each.context == context && each.process == process; };
  const auto found = std::ranges::find_if(
      open_, [&](const auto& each) { return theirs(*each) && each->allocation == place.allocation; });
  if (found != open_.end() && begin_use(**found)) {
    open_.splice(open_.begin(), open_, found);
    return open_.front();
  }
  close_all(driver, [&](const Mapping& each) {
    return theirs(each) && each.base < base + place.bytes && base < each.base + each.bytes;
  });
  for (auto oldest = open_.end(); open_.size() >= kMostOpen && oldest != open_.begin();) {
    if (close(driver, **--oldest)) oldest = open_.erase(oldest);
  }
  CuDevice device = 0;
  driver.check(driver.cuCtxGetDevice(&device), "asking for the device");
  KeptContexts::of_process().keep(driver, device, context);
  CuAddress address = 0;
  const auto try_open = [&] {
    return driver.cuIpcOpenMemHandle_v2(&address, CuIpcHandle{place.handle}, kCuLazyPeerAccess);
  };
  CuResult result = try_open();
  if (result == kCuAlreadyMapped) {  // the driver maps more than the allocation, beside which others may have been
    close_all(driver, theirs);
    result = try_open();
  }
  driver.check(result, "opening memory of another process");
  auto made = std::make_shared<Mapping>();
  made->context = context;
  made->process = process;
  made->base = base;
  made->bytes = place.bytes;
  made->allocation = place.allocation;
  made->address = address;
  made->users = 1;
  return open_.emplace_front(std::move(made));
}

}  // namespace tutti::device
