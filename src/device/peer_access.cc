#include "device/peer_access.h"

#include <string>

namespace tutti::device {
namespace {

// By its name; kOnHost: this process does not see it.
CuDevice find_device(const Driver& driver, const std::array<std::byte, 16>& name) {
  const int devices = count_devices(driver);
  for (CuDevice device = 0; device < devices; ++device) {
    CuUuid found{};
    driver.check(driver.cuDeviceGetUuid_v2(&found, device), "asking for the name of a device");
    if (found.bytes == name) return device;
  }
  return kOnHost;
}

}  // namespace

PeerAccess& PeerAccess::of_process() {
  static PeerAccess* const kAccess = new PeerAccess;  // as long as the contexts that it keeps
  return *kAccess;
}

void PeerAccess::require(const Driver& driver, const UsedDevice& device, const std::array<std::byte, 16>& other,
                         bool of_process) {
  if (other == device.name) return;
  const Way way{device.context, other, of_process};
  const std::lock_guard lock(mutex_);
  auto known = ways_.find(way);
  if (known == ways_.end()) known = ways_.emplace(way, find(driver, device, way)).first;
  if (known->second) throw Error(*known->second);
}

std::optional<Error> PeerAccess::find(const Driver& driver, const UsedDevice& device, const Way& way) {
  const CuDevice peer = find_device(driver, way.other);
  if (peer == kOnHost) return std::nullopt;
  const std::string cannot = "device " + std::to_string(device.device) + " cannot reach device " + std::to_string(peer);
  int can = 0;
  driver.check(driver.cuDeviceCanAccessPeer(&can, device.device, peer), "asking whether devices reach each other");
  if (can == 0) return Error(ErrorCode::unsupported, cannot + ": the driver has no peer access between them");
  if (!way.of_process) return std::nullopt;
  // Kept as long as the process: what is enabled goes with either context.
  CuContext mine = nullptr, theirs = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&mine, device.device), "keeping a device for its peers");
  driver.check(driver.cuDevicePrimaryCtxRetain(&theirs, peer), "keeping a device for its peers");
  const CuResult result = driver.cuCtxEnablePeerAccess(theirs, 0);
  if (result != kCuPeerAccessAlreadyEnabled) driver.check(result, cannot + ": enabling peer access");
  return std::nullopt;
}

}  // namespace tutti::device
