#include "transport/memory/bells.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>

namespace tutti::transport {

Bells::Bells(const Mapper& mapper) : shared_(mapper.doorbells()), own_(mapper.doorbell_of(mapper.rank())) {
  for (int rank = 0; rank < mapper.size(); ++rank) {
    const int bell = mapper.doorbell_of(rank);
    bell_of_.push_back(bell);
    if (words_.empty() || words_.back().number != bell / 64) words_.push_back({bell / 64, 0});
    words_.back().members |= std::uint64_t{1} << (bell % 64);
  }
}

void Bells::register_process(Doorbells& bells) {
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
    bells.without_membarrier.fetch_add(1, std::memory_order_relaxed);
}

void Bells::use_membarrier_if_all_can() {
  membarrier_ = shared_->without_membarrier.load(std::memory_order_relaxed) == 0;
}

std::uint32_t Bells::prepare_sleep() {
  const std::uint32_t ticket = shared_->bells[own_].rings.load(std::memory_order_acquire);
  shared_->sleepers[own_ / 64].fetch_or(std::uint64_t{1} << (own_ % 64), std::memory_order_seq_cst);
  if (membarrier_) {
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  return ticket;
}

void Bells::sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec timeout{seconds.count(), (at_most - seconds).count()};
  // Not FUTEX_PRIVATE: the ranks may be processes. Every way of returning (woken, timed out, interrupted, bell rung
  // already) means the same: look again.
  ::syscall(SYS_futex, &shared_->bells[own_].rings, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
}

void Bells::wake(int word, std::uint64_t bits) {
  // Whoever clears a bit rings that bell, so that one sleeper costs one system call.
  std::uint64_t mine = shared_->sleepers[word].fetch_and(~bits, std::memory_order_acq_rel) & bits;
  for (; mine != 0; mine &= mine - 1) {
    Doorbells::Bell& bell = shared_->bells[word * 64 + std::countr_zero(mine)];
    bell.rings.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

}  // namespace tutti::transport
