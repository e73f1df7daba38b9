#include "transport/tcp/tcp_transport.h"

#include <utility>

namespace tutti::transport {
namespace {

class TcpFabric final : public Fabric {
 public:
  TcpFabric(std::shared_ptr<Links> links, std::function<void()> elsewhere)
      : connections_(std::make_shared<Connections>(std::move(links), std::move(elsewhere))) {}

  std::unique_ptr<StreamTransport> make_transport(StreamGroup group, std::unique_ptr<Control> control,
                                                  StreamOptions options) override {
    TcpGroup members{{std::move(group)}, connections_};
    return std::make_unique<TcpTransport>(std::move(members), std::move(control), std::move(options));
  }

 private:
  std::shared_ptr<Connections> connections_;
};

}  // namespace

std::shared_ptr<Fabric> make_tcp_fabric(const FabricJob&, std::shared_ptr<Links> links,
                                        std::function<void()> elsewhere) {
  return std::make_shared<TcpFabric>(std::move(links), std::move(elsewhere));
}

TcpTransport::TcpTransport(TcpGroup group, std::unique_ptr<Control> control, StreamOptions options)
    : StreamTransport(static_cast<StreamGroup&>(group), std::move(control), std::move(options), Connection::kSlotBytes),
      connections_(std::move(group.connections)),
      bell_(connections_->bell()),
      edges_(std::make_unique<Edge[]>(edge_count())) {
  listen();
}

TcpTransport::~TcpTransport() {
  if (given_up()) connections_->hurry();
  stop_listening();
  for (std::size_t edge = 0; edge < edge_count(); ++edge) {
    if (Connection* const connection = edges_[edge].connection.load()) connection->close(*edges_[edge].stream);
  }
  leave();
}

TcpTransport::Edge& TcpTransport::edge_to(int channel, int peer) {
  Edge& edge = edges_[index_of(channel, peer)];
  if (edge.connection.load(std::memory_order_relaxed) != nullptr) return edge;
  Connection& connection = connections_->with(job_rank(peer), channel);
  edge.stream = &connection.open(group_number());
  edge.connection.store(&connection, std::memory_order_release);
  return edge;
}

Sender& TcpTransport::sender(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.sender)
    edge.sender = std::make_unique<TcpSender>(*edge.connection.load(), *edge.stream, Connection::kSlotBytes);
  return *edge.sender;
}

Receiver& TcpTransport::receiver(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.receiver) edge.receiver = std::make_unique<TcpReceiver>(*edge.connection.load(), *edge.stream, &settling_);
  return *edge.receiver;
}

bool TcpTransport::drained(int channel, int peer) const {
  const std::uint64_t left = left_at(peer);
  const Edge& edge = edges_[index_of(channel, peer)];
  Connection* const connection = edge.connection.load(std::memory_order_acquire);
  return left != 0 && connection != nullptr && connection->is_drained(*edge.stream, left);
}

const Breakage* TcpTransport::breakage_of(std::size_t edge) const {
  const Connection* const connection = edges_[edge].connection.load(std::memory_order_acquire);
  return connection == nullptr ? nullptr : &connection->breakage();
}

}  // namespace tutti::transport
