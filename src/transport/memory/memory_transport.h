// The transport over memory that all ranks of a host see: flags, slots and windows. Threads and shm only map it.
#pragma once

#include <memory>
#include <vector>

#include "transport/memory/edges.h"
#include "transport/memory/mapper.h"
#include "transport/memory/symmetric.h"
#include "transport/transport.h"

namespace tutti::transport {

class MemoryTransport final : public Transport {
 public:
  // Collective. Throws Error when the ranks do not meet before the deadline.
  MemoryTransport(std::unique_ptr<Mapper> mapper, int channels, const Deadline& deadline);
  ~MemoryTransport() override;

  // The largest message between `ranks` ranks, for groups that must agree on it with ranks elsewhere.
  static std::uint64_t slot_bytes_for(int ranks);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return oversubscribed_; }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override { return at<Flags>(shape_.flags_of(channel, rank)); }
  std::byte* scratch(int channel, int rank) override { return at<std::byte>(shape_.scratch_of(channel, rank)); }

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override {
    return symmetric_.allocate(bytes, deadline);
  }
  bool has_allocations() const override { return symmetric_.any(); }
  MemoryRef locate(const void* memory, std::size_t bytes) const override { return symmetric_.locate(memory, bytes); }
  std::byte* window(int rank, MemoryRef ref) const override { return symmetric_.window(rank, ref); }

  void notify_all() override { bells_->ring_all(size_); }
  void notify_self() override { bells_->ring(rank_); }
  std::uint32_t prepare_sleep() override { return bells_->prepare_sleep(); }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bells_->sleep(ticket, at_most); }

  bool given_up() const override { return header()->abort.load(std::memory_order_relaxed) != 0; }
  bool gave_up(int peer) const override { return bell(peer)->gave_up.load(std::memory_order_relaxed) != 0; }
  std::optional<Failure> failure() override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int) override {}  // the flags are in everybody's sight
  bool departed(int peer) const override { return bell(peer)->departed.load(std::memory_order_acquire) != 0; }

 private:
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(arena_.base.get()) + offset);
  }
  ArenaHeader* header() const { return at<ArenaHeader>(0); }
  EdgeMemory edge(int channel, int from, int to) const;
  std::size_t edge_index(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(peer);
  }
  void meet(const Deadline& deadline);
  void await(const std::atomic<std::uint32_t>& count, const Deadline& deadline);
  Reach reach_of(int peer) const;
  // Until no thread of this process is in the middle of a copy out of this rank's own memory.
  void await_copies() const;
  Bell* bell(int rank) const { return at<Bell>(shape_.bells_at()) + rank; }
  int dead_peer();
  // What the first rank that gave up has left for the others.
  std::optional<Failure> given_verdict() const;

  std::unique_ptr<Mapper> mapper_;
  int rank_;
  int size_;
  ArenaShape shape_;
  Offers offers_;
  Mapping arena_;
  SymmetricMemory symmetric_;
  std::unique_ptr<Bells> bells_;
  bool oversubscribed_ = false;
  std::uint64_t door_word_ = 0;                            // peers read it to see whether they can
  std::atomic<Deadline::Clock::rep> next_death_check_{0};  // looking for the dead costs a system call per peer
  // By edge_index; made on first use, which is when a plan is compiled.
  std::vector<std::unique_ptr<MemorySender>> senders_;
  std::vector<std::unique_ptr<MemoryReceiver>> receivers_;
};

}  // namespace tutti::transport
