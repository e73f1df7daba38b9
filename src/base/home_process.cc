#include "base/home_process.h"

#include <pthread.h>

namespace tutti {

std::atomic<std::uint32_t> HomeProcess::forks_so_far{0};

HomeProcess::HomeProcess() {
  static const int kRegistered =
      ::pthread_atfork(nullptr, nullptr, [] { forks_so_far.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(kRegistered);
  forks_ = forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace tutti
