// The transport of one group over TCP: its streams of messages on the connections of its process (connections.h), one
// per (peer, channel), used both ways, so that operations of a group on different channels can neither wait for nor
// disturb each other. A connection is made when an edge first needs it.
//
// Ranks share no memory. What a peer's flags say comes from the control plane, which also knows who is gone and who
// gave up; it calls on a thread of its own. Without a control plane there is no failure to be heard of.
#pragma once

#include <functional>
#include <memory>

#include "transport/fabric.h"
#include "transport/tcp/connections.h"
#include "transport/tcp/edges.h"
#include "transport/tcp/socket_bell.h"
#include "transport/transport.h"

namespace tutti::transport {

struct TcpGroup : StreamGroup {
  std::shared_ptr<Connections> connections;
};

// A MakeFabric: the connections of this process. Throws Error(system).
std::shared_ptr<Fabric> make_tcp_fabric(const FabricJob& job, std::shared_ptr<Links> links,
                                        std::function<void()> elsewhere);

class TcpTransport final : public StreamTransport {
 public:
  // `control` may be nullptr. Throws Error(system) when the system refuses.
  TcpTransport(TcpGroup group, std::unique_ptr<Control> control, StreamOptions options);
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

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
  std::uint32_t prepare_sleep() override {
    settling_.fetch_add(1, std::memory_order_relaxed);
    return bell_.rings();
  }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell_.sleep(ticket, at_most); }
  void arm() override {
    settling_.fetch_add(1, std::memory_order_relaxed);
    group_.connections->arm();
  }

  bool given_up() const override { return given_up_.load(std::memory_order_relaxed); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return control_ && control_->departed(peer); }
  bool drained(int channel, int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override;

 private:
  struct Edge {
    std::atomic<Connection*> connection{nullptr};  // once it is used; the rest belongs to who uses the channel
    Stream* stream = nullptr;
    std::unique_ptr<TcpSender> sender;
    std::unique_ptr<TcpReceiver> receiver;
  };

  std::size_t index_of(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * group_.ranks.size() + static_cast<std::size_t>(peer);
  }
  // Of all channels.
  std::size_t edge_count() const { return index_of(options_.channels * options_.per_channel, 0); }
  // Made on first use, which is when a plan is compiled.
  Edge& edge_to(int channel, int peer);
  Statement said(int channel) { return options_.said ? options_.said(channel) : stated(*flags(channel, rank())); }
  // On the control plane's thread: something has changed.
  void hear();

  const TcpGroup group_;
  StreamOptions options_;
  Offers offers_;
  SocketBell& bell_;
  std::shared_ptr<void> scratch_;           // per channel; pages that are never touched cost nothing
  std::unique_ptr<Flags[]> flags_;          // by index_of; only the statements of the peers' are ever written
  std::unique_ptr<Edge[]> edges_;           // by index_of
  std::atomic<bool> given_up_{false};       // the control plane has heard of a failure
  std::atomic<std::uint32_t> settling_{0};  // how often somebody was about to sleep
  std::unique_ptr<Control> control_;
};

}  // namespace tutti::transport
