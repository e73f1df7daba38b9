#include "transport/ucx/ucx_transport.h"

#include <utility>

namespace tutti::transport {

UcxTransport::UcxTransport(UcxGroup group, std::unique_ptr<Control> control, StreamOptions options)
    : StreamTransport(static_cast<StreamGroup&>(group), std::move(control), std::move(options), UcxFabric::kSlotBytes),
      fabric_(std::move(group.fabric)),
      bell_(fabric_->bell()),
      edges_(std::make_unique<Edge[]>(edge_count())) {
  listen();
}

UcxTransport::~UcxTransport() {
  if (given_up()) fabric_->hurry();
  stop_listening();
  fabric_->close(group_number(), job_ranks());
  leave();
}

UcxTransport::Edge& UcxTransport::edge_to(int channel, int peer) {
  Edge& edge = edges_[index_of(channel, peer)];
  if (edge.stream.load(std::memory_order_relaxed) == nullptr)
    edge.stream.store(&fabric_->open(job_rank(peer), group_number(), channel), std::memory_order_release);
  return edge;
}

Sender& UcxTransport::sender(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.sender) edge.sender = std::make_unique<UcxSender>(*fabric_, *edge.stream.load());
  return *edge.sender;
}

Receiver& UcxTransport::receiver(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.receiver) edge.receiver = std::make_unique<UcxReceiver>(*fabric_, *edge.stream.load());
  return *edge.receiver;
}

bool UcxTransport::drained(int channel, int peer) const {
  const std::uint64_t left = left_at(peer);
  const UcxStream* const stream = edges_[index_of(channel, peer)].stream.load(std::memory_order_acquire);
  return left != 0 && stream != nullptr && fabric_->is_drained(*stream, left);
}

const Breakage* UcxTransport::breakage_of(std::size_t edge) const {
  if (edges_[edge].stream.load(std::memory_order_acquire) == nullptr) return nullptr;
  return &fabric_->breakage(job_rank(static_cast<int>(edge) % size()));
}

std::unique_ptr<StreamTransport> UcxFabric::make_transport(StreamGroup group, std::unique_ptr<Control> control,
                                                           StreamOptions options) {
  UcxGroup members{{std::move(group)}, shared_from_this()};
  return std::make_unique<UcxTransport>(std::move(members), std::move(control), std::move(options));
}

}  // namespace tutti::transport
