// Primary contexts that this process keeps for good, because it holds what goes with them: kernels, and memory of other
// processes that is open there. A primary context goes with the last who uses it, and the next one may have the same
// address. Threads: any.
#pragma once

#include <mutex>
#include <set>

#include "device/driver.h"

namespace tutti::device {

class KeptContexts {
 public:
  static KeptContexts& of_process();

  // A context of this device. One that is not its primary one is the caller's to keep. Throws Error(system).
  void keep(const Driver& driver, CuDevice device, CuContext context);

 private:
  std::mutex mutex_;
  std::set<CuContext> kept_;
};

}  // namespace tutti::device
