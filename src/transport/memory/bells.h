// Sleeping and waking between ranks, without cost for those who publish to ranks that are awake.
//
// A rank that wants to sleep sets its bit in the sleepers mask, then looks once more for work, then waits on its bell.
// A publisher stores its flag, then loads the mask. Either the publisher sees the bit or the sleeper sees the flag, if
// a full fence separates the two accesses on both sides. The sleeper pays for both with membarrier, which makes every
// core that runs a registered rank execute a fence; where the system lacks it, publishers fence themselves.
//
// A bit is cleared by whoever rings, never by the rank itself: other threads of the rank may sleep on the same bell. A
// rank that found work after all leaves its bit set, which costs the next publisher one needless ring.
#pragma once

#include <chrono>
#include <cstdint>

#include "transport/memory/arena.h"

namespace tutti::transport {

class Bells {
 public:
  Bells(ArenaHeader* header, Bell* bells, int rank) : header_(header), bells_(bells), rank_(rank) {}

  // Once per process, before the ranks meet; true where this process can be fenced by others.
  static bool register_process();
  // After all ranks have met.
  void use_membarrier(bool yes) { membarrier_ = yes; }

  void ring(int rank) {
    order_publish();
    const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
    if (header_->sleepers[rank / 64].load(std::memory_order_relaxed) & bit) wake(rank / 64, bit);
  }
  void ring_all(int ranks) {
    order_publish();
    for (int word = 0; word * 64 < ranks; ++word) {
      if (const std::uint64_t bits = header_->sleepers[word].load(std::memory_order_relaxed)) wake(word, bits);
    }
  }

  std::uint32_t prepare_sleep();
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most);

 private:
  void order_publish() const {
    if (membarrier_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  void wake(int word, std::uint64_t bits);

  ArenaHeader* header_;
  Bell* bells_;
  int rank_;
  bool membarrier_ = false;
};

}  // namespace tutti::transport
