#include "transport/ucx/ucx_transport.h"

#include <algorithm>
#include <utility>

#include "transport/private_memory.h"

namespace tutti::transport {
namespace {

// Of a channel; segments are longer where they go to other hosts.
std::size_t ucx_scratch_bytes(const StreamOptions& options) { return options.hosts.several() ? 8 << 20 : 4 << 20; }

// A peer whose endpoint broke has mostly ended or left; the control plane knows which, and has this long to say so.
constexpr std::chrono::milliseconds kUcxGrace{500};

Offers offers_of_ucx(const StreamOptions& options) {
  Offers offers;
  offers.inside.credits = 1;
  offers.inside.slot_bytes = UcxFabric::kSlotBytes;
  offers.scratch_bytes = ucx_scratch_bytes(options);
  return offers;
}

}  // namespace

UcxTransport::UcxTransport(UcxGroup group, std::unique_ptr<Control> control, StreamOptions options)
    : group_(std::move(group)),
      options_(std::move(options)),
      offers_(offers_of_ucx(options_)),
      bell_(group_.fabric->bell()),
      scratch_(map_private(static_cast<std::size_t>(channels()) * offers_.scratch_bytes)),
      flags_(std::make_unique<Flags[]>(index_of(channels(), 0))),
      edges_(std::make_unique<Edge[]>(edge_count())),
      control_(std::move(control)) {
  offers_.channels = static_cast<std::uint32_t>(options_.per_channel);
  offers_.hosts = options_.hosts;
  if (offers_.hosts.several()) offers_.across = offers_.inside;
  if (!control_) return;
  Control::Hooks hooks;
  hooks.wake = [this] { hear(); };
  hooks.say = [this](std::uint32_t channel) { return said(static_cast<int>(channel)); };
  hooks.channels = static_cast<std::uint32_t>(channels());
  hooks.quiet_for = [this](int peer) { return group_.fabric->quiet_for(job_rank(peer)); };
  control_->attach(std::move(hooks));
}

UcxTransport::~UcxTransport() {
  if (given_up()) group_.fabric->hurry();
  if (control_) control_->attach({});
  group_.fabric->close(group_.number, group_.ranks);
  control_.reset();  // leaves the group
}

UcxTransport::Edge& UcxTransport::edge_to(int channel, int peer) {
  Edge& edge = edges_[index_of(channel, peer)];
  if (edge.stream.load(std::memory_order_relaxed) == nullptr)
    edge.stream.store(&group_.fabric->open(job_rank(peer), group_.number, channel), std::memory_order_release);
  return edge;
}

Sender& UcxTransport::sender(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.sender) edge.sender = std::make_unique<UcxSender>(*group_.fabric, *edge.stream.load());
  return *edge.sender;
}

Receiver& UcxTransport::receiver(int channel, int peer) {
  Edge& edge = edge_to(channel, peer);
  if (!edge.receiver) edge.receiver = std::make_unique<UcxReceiver>(*group_.fabric, *edge.stream.load());
  return *edge.receiver;
}

bool UcxTransport::drained(int channel, int peer) const {
  const std::uint64_t left_at = control_ ? control_->left_at(peer) : 0;
  const UcxStream* const stream = edges_[index_of(channel, peer)].stream.load(std::memory_order_acquire);
  return left_at != 0 && stream != nullptr && group_.fabric->is_drained(*stream, left_at);
}

std::byte* UcxTransport::scratch(int channel, int rank) {
  if (rank != group_.rank) return nullptr;
  return static_cast<std::byte*>(scratch_.get()) + static_cast<std::size_t>(channel) * offers_.scratch_bytes;
}

std::shared_ptr<void> UcxTransport::allocate(std::size_t bytes, const Deadline&) {
  return map_private(std::max<std::size_t>(bytes, 1));
}

std::optional<Failure> UcxTransport::failure() {
  if (!control_) return std::nullopt;
  if (auto failure = control_->failure()) return failure;
  for (std::size_t edge = 0; edge < edge_count(); ++edge) {
    const int peer = static_cast<int>(edge) % size();
    if (edges_[edge].stream.load(std::memory_order_acquire) == nullptr) continue;
    const Breakage& breakage = group_.fabric->breakage(job_rank(peer));
    if (!breakage.older_than(kUcxGrace) || control_->departed(peer)) continue;
    const Failure failure{peer, -1, true, breakage.loss()};
    control_->lose(peer, failure.loss);  // the others are to know how it was lost
    return failure;
  }
  return std::nullopt;
}

void UcxTransport::abort(int culprit, ErrorCode cause) {
  if (!control_) return;
  control_->abort(culprit, cause);
  // What was said when another rank's failure was heard may have been the call before.
  for (int channel = 0; channel < channels(); ++channel) announce(channel);
  given_up_.store(true, std::memory_order_relaxed);
  bell_.ring();
}

void UcxTransport::announce(int channel) {
  if (control_) control_->announce(static_cast<std::uint32_t>(channel), said(channel));
}

void UcxTransport::hear() {
  if (control_->failure()) given_up_.store(true, std::memory_order_relaxed);
  for (int channel = 0; channel < channels(); ++channel) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == group_.rank) continue;
      const Statement news = control_->announced(static_cast<std::uint32_t>(channel), peer);
      Flags& theirs = *flags(channel, peer);
      if (news.sequence != 0 && stated(theirs) != news) state(theirs, news);
    }
  }
  bell_.ring();
}

std::unique_ptr<StreamTransport> UcxFabric::make_transport(StreamGroup group, std::unique_ptr<Control> control,
                                                           StreamOptions options) {
  UcxGroup members{{std::move(group)}, shared_from_this()};
  return std::make_unique<UcxTransport>(std::move(members), std::move(control), std::move(options));
}

}  // namespace tutti::transport
