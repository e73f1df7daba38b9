// The transport of one group over UCX: its streams of messages on the fabric of its process (fabric.h), one per (peer,
// channel), used both ways. To the engine it is what TCP is, only faster where the machine has something faster.
//
// Ranks share no memory. What a peer's flags say comes from the control plane, which also knows who is gone and who
// gave up; it calls on a thread of its own.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "transport/fabric.h"
#include "transport/ucx/edges.h"
#include "transport/ucx/fabric.h"

namespace tutti::transport {

struct UcxGroup : StreamGroup {
  std::shared_ptr<UcxFabric> fabric;
};

class UcxTransport final : public StreamTransport {
 public:
  // `control` may be nullptr. Throws Error(system) when the system refuses.
  UcxTransport(UcxGroup group, std::unique_ptr<Control> control, StreamOptions options);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return options_.oversubscribed; }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override { return &flags_[index_of(channel, rank)]; }
  std::byte* scratch(int channel, int rank) override;

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override;
  bool has_allocations() const override { return false; }
  MemoryRef locate(const void*, std::size_t) const override { return 0; }
  std::byte* window(int, MemoryRef) const override { return nullptr; }

  void notify_all() override {}  // no peer sees a store to these flags
  void notify_self() override { bell_.ring(); }
  const void* sleeping_place() const override { return &bell_; }
  std::uint32_t prepare_sleep() override { return bell_.rings(); }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell_.sleep(ticket, at_most); }

  void arm() override { group_.fabric->arm(); }

  bool given_up() const override { return given_up_.load(std::memory_order_relaxed); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return control_ && control_->departed(peer); }
  bool drained(int channel, int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override;

 private:
  struct Edge {
    std::atomic<UcxStream*> stream{nullptr};  // once it is used; the rest belongs to who uses the channel
    std::unique_ptr<UcxSender> sender;
    std::unique_ptr<UcxReceiver> receiver;
  };

  int channels() const { return options_.channels; }
  // Of all channels.
  std::size_t edge_count() const { return index_of(options_.channels * options_.per_channel, 0); }
  int job_rank(int peer) const { return group_.ranks[static_cast<std::size_t>(peer)]; }
  std::size_t index_of(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * group_.ranks.size() + static_cast<std::size_t>(peer);
  }
  // Made on first use, which is when a plan is compiled.
  Edge& edge_to(int channel, int peer);
  Statement said(int channel) { return options_.said ? options_.said(channel) : stated(*flags(channel, rank())); }
  // On the control plane's thread: something has changed.
  void hear();

  const UcxGroup group_;
  const StreamOptions options_;
  Offers offers_;
  WorkerBell& bell_;
  std::shared_ptr<void> scratch_;      // per channel
  std::unique_ptr<Flags[]> flags_;     // by index_of; only the statements of the peers' are ever written
  std::unique_ptr<Edge[]> edges_;      // by index_of
  std::atomic<bool> given_up_{false};  // the control plane has heard of a failure
  std::unique_ptr<Control> control_;
};

}  // namespace tutti::transport
