// Sleeping and waking between the ranks of a group, without cost for those who publish to ranks that are awake.
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
#include <memory>
#include <vector>

#include "transport/memory/doorbells.h"
#include "transport/memory/mapper.h"

namespace tutti::transport {

class Bells {
 public:
  explicit Bells(const Mapper& mapper);

  // Once per process and memory, before its ranks meet.
  static void register_process(Doorbells& bells);
  // Asked once all ranks that share the memory have registered.
  void use_membarrier_if_all_can();

  // The number by which ring() knows a rank of the group.
  int bell_of(int rank) const { return bell_of_[static_cast<std::size_t>(rank)]; }
  void ring(int bell) {
    order_publish();
    const std::uint64_t bit = std::uint64_t{1} << (bell % 64);
    if (shared_->sleepers[bell / 64].load(std::memory_order_relaxed) & bit) wake(bell / 64, bit);
  }
  void ring_own() { ring(own_); }
  // Every rank of the group.
  void ring_all() {
    order_publish();
    for (const Word& word : words_) {
      const std::uint64_t sleeping = shared_->sleepers[word.number].load(std::memory_order_relaxed) & word.members;
      if (sleeping != 0) wake(word.number, sleeping);
    }
  }

  // Where this rank sleeps.
  const void* place() const { return &shared_->bells[own_]; }
  std::uint32_t prepare_sleep();
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most);

 private:
  // A word of the mask that has ranks of the group in it, and their bits.
  struct Word {
    int number = 0;
    std::uint64_t members = 0;
  };

  void order_publish() const {
    if (membarrier_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  void wake(int word, std::uint64_t bits);

  std::shared_ptr<Doorbells> shared_;
  std::vector<int> bell_of_;  // by rank of the group
  std::vector<Word> words_;
  int own_;
  bool membarrier_ = false;
};

}  // namespace tutti::transport
