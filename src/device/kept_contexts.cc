#include "device/kept_contexts.h"

namespace tutti::device {

KeptContexts& KeptContexts::of_process() {
  static KeptContexts* const kContexts = new KeptContexts;  // contexts may outlive static objects
  return *kContexts;
}

void KeptContexts::keep(const Driver& driver, CuDevice device, CuContext context) {
  const std::lock_guard lock(mutex_);
  if (kept_.contains(context)) return;
  CuContext primary = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&primary, device), "keeping the context of a device");
  kept_.insert(context);
  if (primary != context) driver.cuDevicePrimaryCtxRelease_v2(device);
}

}  // namespace tutti::device
