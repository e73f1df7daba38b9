// The transport over memory that all ranks of a host see: flags, slots and windows. Threads and shm only map it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/device_card.h"
#include "transport/memory/bells.h"
#include "transport/memory/edges.h"
#include "transport/memory/mapper.h"
#include "transport/memory/symmetric.h"
#include "transport/transport.h"

namespace tutti::transport {

// What a group wants memory for.
struct MemoryUse {
  MemoryUse(int of_channels, bool beside_streams = false) : channels(of_channels), several_hosts(beside_streams) {}
  int channels;
  bool several_hosts;  // the group has ranks elsewhere, and segments are cut for what goes there
};

class MemoryTransport final : public Transport {
 public:
  // Collective. Throws Error when the ranks do not meet before the deadline.
  // `hopeless`, where set, is asked while the ranks meet: true ends it, because the caller knows that one won't come.
  MemoryTransport(std::unique_ptr<Mapper> mapper, const MemoryUse& use, const Deadline& deadline,
                  const std::function<bool()>& hopeless = {});
  ~MemoryTransport() override;

  // What the first Mapper::map_shared() of a group is asked for.
  static std::size_t arena_bytes(int ranks, const MemoryUse& use);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return oversubscribed_; }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override { return at<Flags>(shape_.flags_of(channel, rank)); }
  bool has_peer_in_process() const override;
  DeviceCard* device_card(int channel, int rank) override { return at<DeviceCard>(shape_.card_of(channel, rank)); }
  std::byte* scratch(int channel, int rank) override { return at<std::byte>(shape_.scratch_of(channel, rank)); }

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override {
    return symmetric_.allocate(bytes, deadline);
  }
  bool has_allocations() const override { return symmetric_.any(); }
  MemoryRef locate(const void* memory, std::size_t bytes) const override { return symmetric_.locate(memory, bytes); }
  std::byte* window(int rank, MemoryRef ref) const override { return symmetric_.window(rank, ref); }

  void notify_all() override { bells_->ring_all(); }
  void notify_self() override { bells_->ring_own(); }
  // notify_self() of all transports that sleep where this one does; may outlive it.
  std::function<void()> waker() const {
    return [bells = bells_] { bells->ring_own(); };
  }
  const void* sleeping_place() const override { return bells_->place(); }
  std::uint32_t prepare_sleep() override { return bells_->prepare_sleep(); }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bells_->sleep(ticket, at_most); }

  bool given_up() const override { return header()->abort.load(std::memory_order_relaxed) != 0; }
  bool gave_up(int peer) const override { return presence(peer)->gave_up.load(std::memory_order_relaxed) != 0; }
  std::optional<Failure> failure() override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int) override {}  // the flags are in everybody's sight
  bool departed(int peer) const override { return presence(peer)->departed.load(std::memory_order_acquire) != 0; }

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
  void meet(const Deadline& deadline, const std::function<bool()>& hopeless);
  void await(const std::atomic<std::uint32_t>& count, const Deadline& deadline, const std::function<bool()>& hopeless);
  Reach reach_of(int peer) const;
  bool is_thread_here(int peer) const;
  // Until no thread of this process is in the middle of a copy out of this rank's own memory.
  void await_copies() const;
  Presence* presence(int rank) const { return at<Presence>(shape_.presences_at()) + rank; }
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
  std::shared_ptr<Bells> bells_;
  bool oversubscribed_ = false;
  std::uint64_t probe_word_ = 0;                           // peers read it to see whether they can
  std::atomic<Deadline::Clock::rep> next_death_check_{0};  // looking for the dead costs a system call per peer
  // By edge_index; made on first use, which is when a plan is compiled.
  std::vector<std::unique_ptr<MemorySender>> senders_;
  std::vector<std::unique_ptr<MemoryReceiver>> receivers_;
};

}  // namespace tutti::transport
