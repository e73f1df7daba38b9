// The process that something belongs to: a child that is forked later finds a copy of it, which it must not use.
//
// Costs a load and a comparison; the C library's own handlers tell of forks.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

class HomeProcess {
 public:
  // This one.
  HomeProcess();

  bool is_here() const { return forks_ == forks_so_far.load(std::memory_order_relaxed); }

 private:
  // Between this process and its first, since the first HomeProcess was made.
  static std::atomic<std::uint32_t> forks_so_far;

  std::uint32_t forks_;
};

}  // namespace tutti
