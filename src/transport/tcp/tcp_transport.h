// The transport of one group over TCP: its streams of messages on the connections of its process (connections.h), one
// per (peer, channel), used both ways, so that operations of a group on different channels can neither wait for nor
// disturb each other. A connection is made when an edge first needs it.
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

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  bool drained(int channel, int peer) const override;

  const void* sleeping_place() const override { return &bell_; }
  std::uint32_t prepare_sleep() override {
    settling_.fetch_add(1, std::memory_order_relaxed);
    return bell_.rings();
  }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell_.sleep(ticket, at_most); }
  void arm() override {
    settling_.fetch_add(1, std::memory_order_relaxed);
    connections_->arm();
  }

 private:
  struct Edge {
    std::atomic<Connection*> connection{nullptr};  // once it is used; the rest belongs to who uses the channel
    Stream* stream = nullptr;
    std::unique_ptr<TcpSender> sender;
    std::unique_ptr<TcpReceiver> receiver;
  };

  void ring() override { bell_.ring(); }
  std::chrono::nanoseconds quiet_for(int job_rank) override { return connections_->quiet_for(job_rank); }
  const Breakage* breakage_of(std::size_t edge) const override;
  // Made on first use, which is when a plan is compiled.
  Edge& edge_to(int channel, int peer);

  const std::shared_ptr<Connections> connections_;
  SocketBell& bell_;
  std::unique_ptr<Edge[]> edges_;           // by index_of
  std::atomic<std::uint32_t> settling_{0};  // how often somebody was about to sleep
};

}  // namespace tutti::transport
