#include "transport/tcp/tcp_transport.h"

#include <algorithm>
#include <utility>

#include "transport/private_memory.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kSlotBytes = 256 << 10;
// Of a channel; segments are longer where they go to other hosts.
std::size_t scratch_bytes_of(const StreamOptions& options) { return options.hosts.several() ? 8 << 20 : 4 << 20; }

// A peer whose connection broke has mostly ended or left; the control plane knows which, and has this long to say so.
constexpr std::chrono::milliseconds kGrace{500};

Offers offers_of_streams(const StreamOptions& options) {
  Offers offers;
  offers.inside.credits = 1;
  offers.inside.slot_bytes = kSlotBytes;
  offers.scratch_bytes = scratch_bytes_of(options);
  return offers;
}

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
    : group_(std::move(group)),
      options_(std::move(options)),
      offers_(offers_of_streams(options_)),
      bell_(group_.connections->bell()),
      scratch_(map_private(static_cast<std::size_t>(options_.channels) * offers_.scratch_bytes)),
      flags_(std::make_unique<Flags[]>(index_of(options_.channels, 0))),
      edges_(std::make_unique<Edge[]>(edge_count())),
      control_(std::move(control)) {
  offers_.channels = static_cast<std::uint32_t>(options_.per_channel);
  offers_.hosts = options_.hosts;
  if (offers_.hosts.several()) offers_.across = offers_.inside;
  if (!control_) return;
  Control::Hooks hooks;
  hooks.wake = [this] { hear(); };
  hooks.say = [this](std::uint32_t channel) { return said(static_cast<int>(channel)); };
  hooks.channels = static_cast<std::uint32_t>(options_.channels);
  hooks.quiet_for = [this](int peer) {
    return group_.connections->quiet_for(group_.ranks[static_cast<std::size_t>(peer)]);
  };
  control_->attach(std::move(hooks));
}

TcpTransport::~TcpTransport() {
  if (given_up()) group_.connections->hurry();
  if (control_) control_->attach({});
  for (std::size_t edge = 0; edge < edge_count(); ++edge) {
    if (Connection* const connection = edges_[edge].connection.load()) connection->close(*edges_[edge].stream);
  }
  control_.reset();  // leaves the group
}

TcpTransport::Edge& TcpTransport::edge_to(int channel, int peer) {
  Edge& edge = edges_[index_of(channel, peer)];
  if (edge.connection.load(std::memory_order_relaxed) != nullptr) return edge;
  Connection& connection = group_.connections->with(group_.ranks[static_cast<std::size_t>(peer)], channel);
  edge.stream = &connection.open(group_.number);
  edge.connection.store(&connection, std::memory_order_release);
  return edge;
}

Sender& TcpTransport::sender(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.sender) edge.sender = std::make_unique<TcpSender>(*edge.connection.load(), *edge.stream, kSlotBytes);
  return *edge.sender;
}

Receiver& TcpTransport::receiver(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.receiver) edge.receiver = std::make_unique<TcpReceiver>(*edge.connection.load(), *edge.stream, &settling_);
  return *edge.receiver;
}

bool TcpTransport::drained(int channel, int peer) const {
  const std::uint64_t left_at = control_ ? control_->left_at(peer) : 0;
  const Edge& edge = edges_[index_of(channel, peer)];
  Connection* const connection = edge.connection.load(std::memory_order_acquire);
  return left_at != 0 && connection != nullptr && connection->is_drained(*edge.stream, left_at);
}

std::byte* TcpTransport::scratch(int channel, int rank) {
  if (rank != group_.rank) return nullptr;
  return static_cast<std::byte*>(scratch_.get()) + static_cast<std::size_t>(channel) * offers_.scratch_bytes;
}

std::shared_ptr<void> TcpTransport::allocate(std::size_t bytes, const Deadline&) {
  return map_private(std::max<std::size_t>(bytes, 1));
}

std::optional<Failure> TcpTransport::failure() {
  if (!control_) return std::nullopt;
  if (auto failure = control_->failure()) return failure;
  for (std::size_t edge = 0; edge < edge_count(); ++edge) {
    const int peer = static_cast<int>(edge) % size();
    const Connection* const connection = edges_[edge].connection.load(std::memory_order_acquire);
    if (connection == nullptr) continue;
    const Breakage& breakage = connection->breakage();
    if (!breakage.older_than(kGrace) || control_->departed(peer)) continue;
    const Failure failure{peer, -1, true, breakage.loss()};
    control_->lose(peer, failure.loss);  // the others are to know how it was lost
    return failure;
  }
  return std::nullopt;
}

void TcpTransport::abort(int culprit, ErrorCode cause) {
  if (!control_) return;
  control_->abort(culprit, cause);
  // What was said when another rank's failure was heard may have been the call before.
  for (int channel = 0; channel < options_.channels; ++channel) announce(channel);
  given_up_.store(true, std::memory_order_relaxed);
  bell_.ring();
}

void TcpTransport::announce(int channel) {
  if (control_) control_->announce(static_cast<std::uint32_t>(channel), said(channel));
}

void TcpTransport::hear() {
  if (control_->failure()) given_up_.store(true, std::memory_order_relaxed);
  for (int channel = 0; channel < options_.channels; ++channel) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == group_.rank) continue;
      const Statement news = control_->announced(static_cast<std::uint32_t>(channel), peer);
      Flags& theirs = *flags(channel, peer);
      if (news.sequence != 0 && stated(theirs) != news) state(theirs, news);
    }
  }
  bell_.ring();
}

}  // namespace tutti::transport
