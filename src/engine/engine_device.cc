// Memory on devices that all ranks ask for together.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/mix.h"
#include "device/allocate.h"
#include "device/peer_access.h"
#include "device/shared_allocations.h"
#include "engine/engine.h"

namespace tutti::engine {
namespace {

using device::SharedAllocations;

// What a rank tells the others of its part. A record without pointers.
struct PartOnDevice {
  std::uint64_t process = 0;
  std::uint64_t there = 0;             // whether it got its memory
  std::uint64_t shown = 0;             // whether others can open it
  std::array<std::byte, 16> device{};  // the driver's name for it
  DevicePlace place{};
};

// What ranks must have alike, for Request::mark; never 0.
std::uint32_t mark_of(std::size_t bytes) {
  constexpr std::uint64_t kAllocates = 0x64657669;
  return static_cast<std::uint32_t>(mix(kAllocates, bytes)) | 1;
}

std::uint64_t devices_of(const std::vector<PartOnDevice>& parts) {
  std::set<std::array<std::byte, 16>> names;
  for (const PartOnDevice& part : parts) names.insert(part.device);
  return names.size();
}

class DevicePart {
 public:
  // `place`: of this rank among those of its host.
  DevicePart(std::size_t bytes, int device, int place) {
    try {
      driver_ = &device::load_driver();
      if (device == kOwnDevice) device = place % std::max(1, device::count_devices(*driver_));
      memory_ = device::allocate(*driver_, device, bytes);
      driver_->check(driver_->cuDevicePrimaryCtxRetain(&used_.context, device), "using the device");
      used_.device = device;
      show();
    } catch (const Error& error) {
      memory_.reset();
      error_ = error;
    }
  }
  ~DevicePart() {
    if (used_.context != nullptr) driver_->cuDevicePrimaryCtxRelease_v2(used_.device);
  }
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

  const PartOnDevice& part() const { return part_; }
  const std::optional<Error>& error() const { return error_; }
  std::shared_ptr<void> memory() const { return memory_; }
  // What cannot be opened now cannot be in a call either, which then takes another way.
  void open(const PartOnDevice& other) const {
    if (other.shown == 0) return;
    try {
      auto& allocations = SharedAllocations::of_process();
      const device::Current current(*driver_, used_.context);
      device::PeerAccess::of_process().require(*driver_, used_, other.device, other.process == allocations.process());
      SharedAllocations::Last last;
      allocations.open(*driver_, used_.context, other.process, other.place, last);
    } catch (const Error&) {
      return;
    }
  }

 private:
  void show() {
    const device::Current current(*driver_, used_.context);
    device::CuUuid name{};
    driver_->check(driver_->cuDeviceGetUuid_v2(&name, used_.device), "asking for the name of the device");
    part_.device = used_.name = name.bytes;
    part_.process = SharedAllocations::of_process().process();
    part_.there = 1;
    part_.shown = SharedAllocations::of_process().show(*driver_, memory_.get(), part_.place) ? 1 : 0;
  }

  const device::Driver* driver_ = nullptr;
  device::UsedDevice used_;
  std::shared_ptr<void> memory_;
  PartOnDevice part_;
  std::optional<Error> error_;
};

}  // namespace

void Engine::tell_way(const Track& track) {
  const std::optional<Error>& why_not = track.why_not_launched();
  const Verb verb = track.call().verb;
  if (why_not && why_not->what() != told_why_not_) {
    told_why_not_ = why_not->what();
    const std::string words = "calls on device memory cannot be launched for all ranks: " + told_why_not_;
    if (why_not->code() == ErrorCode::invalid_argument) {
      log_.warn(words);  // the caller's to mend, as the source of an operator is
    } else {
      log_.info(words);
    }
  }
  const bool one = last_algorithm_ == kOneLaunch, several = last_algorithm_ == kOwnShares;
  std::uint32_t& told = told_ways_[one ? 0 : several ? 1 : 2];
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(verb);
  if ((told & bit) != 0 || !log_.says(Log::Level::info)) return;
  told |= bit;
  const std::string way = one       ? "one rank launches a kernel for all, by CUDA IPC"
                          : several ? "each device does its share by a kernel of its own, by CUDA IPC and peer access"
                                    : "through host memory, by " + std::string(last_algorithm_);
  log_.info(std::string(name_of(verb)) + " on device memory: " + way);
}

int Engine::place_on_host() const {
  int place = 0;
  for (int lower = 0; lower < rank(); ++lower) place += transport_->offers().hosts.share(lower, rank()) ? 1 : 0;
  return place;
}

std::shared_ptr<void> Engine::allocate_device(std::size_t bytes, int device) {
  static_assert(std::is_trivially_copyable_v<PartOnDevice>);
  require_alive();
  const DevicePart mine(bytes, device, place_on_host());
  std::vector<PartOnDevice> parts(static_cast<std::size_t>(size()));
  run_own({.verb = Verb::all_gather,
           .input = &mine.part(),
           .output = parts.data(),
           .input_count = sizeof(PartOnDevice),
           .output_count = parts.size() * sizeof(PartOnDevice),
           .element = DType::uint8,
           .mark = mark_of(bytes)});
  if (mine.error()) throw Error(mine.error()->code(), std::string("allocate_device: ") + mine.error()->what());
  for (int rank = 0; rank < size(); ++rank) {
    if (parts[static_cast<std::size_t>(rank)].there == 0) {
      throw Error(ErrorCode::system,
                  "allocate_device: rank " + std::to_string(rank) + " got no " + std::to_string(bytes) +
                      " bytes on its device, and says why; no rank has any of it",
                  rank);
    }
  }
  if (transport_->device_card(0, 0) == nullptr) return mine.memory();
  transport_->device_card(0, 0)->devices.store(devices_of(parts), std::memory_order_relaxed);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != this->rank()) mine.open(parts[static_cast<std::size_t>(rank)]);
  }
  return mine.memory();
}

}  // namespace tutti::engine
