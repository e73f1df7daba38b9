#include "transport/stream_transport.h"

#include <algorithm>
#include <utility>

#include "transport/private_memory.h"

namespace tutti::transport {
namespace {

// A peer whose connection broke has mostly ended or left; the control plane knows which, and has this long to say so.
constexpr std::chrono::milliseconds kGrace{500};

Offers offers_of_streams(const StreamOptions& options, std::size_t slot_bytes) {
  Offers offers;
  offers.inside.credits = 1;
  offers.inside.slot_bytes = slot_bytes;
  offers.scratch_bytes = options.hosts.several() ? 8 << 20 : 4 << 20;  // segments are longer that go to other hosts
  offers.channels = static_cast<std::uint32_t>(options.per_channel);
  offers.hosts = options.hosts;
  if (offers.hosts.several()) offers.across = offers.inside;
  return offers;
}

}  // namespace

StreamTransport::StreamTransport(StreamGroup group, std::unique_ptr<Control> control, StreamOptions options,
                                 std::size_t slot_bytes)
    : group_(std::move(group)),
      options_(std::move(options)),
      offers_(offers_of_streams(options_, slot_bytes)),
      scratch_(map_private(static_cast<std::size_t>(options_.channels * options_.parts) * offers_.scratch_bytes)),
      flags_(std::make_unique<Flags[]>(index_of(options_.channels, 0))),
      control_(std::move(control)) {}

void StreamTransport::listen() {
  if (!control_) return;
  Control::Hooks hooks;
  hooks.wake = [this] { hear(); };
  hooks.say = [this](std::uint32_t channel) { return said(static_cast<int>(channel)); };
  hooks.channels = static_cast<std::uint32_t>(options_.channels);
  hooks.quiet_for = [this](int peer) { return quiet_for(job_rank(peer)); };
  control_->attach(std::move(hooks));
}

void StreamTransport::stop_listening() {
  if (control_) control_->attach({});
}

std::byte* StreamTransport::scratch(int channel, int rank) {
  if (rank != group_.rank) return nullptr;
  const int part = channel / channel_of_part(0, 1);
  const int place = part * options_.channels + (channel - channel_of_part(0, part));
  return static_cast<std::byte*>(scratch_.get()) + static_cast<std::size_t>(place) * offers_.scratch_bytes;
}

std::shared_ptr<void> StreamTransport::allocate(std::size_t bytes, const Deadline&) {
  return map_private(std::max<std::size_t>(bytes, 1));
}

std::optional<Failure> StreamTransport::failure() {
  if (!control_) return std::nullopt;
  if (auto failure = control_->failure()) return failure;
  for (std::size_t edge = 0; edge < edge_count(); ++edge) {
    const int peer = static_cast<int>(edge) % size();
    const Breakage* const breakage = breakage_of(edge);
    if (breakage == nullptr || !breakage->older_than(kGrace) || control_->departed(peer)) continue;
    const Failure failure{peer, -1, true, breakage->loss()};
    control_->lose(peer, failure.loss);  // the others are to know how it was lost
    return failure;
  }
  return std::nullopt;
}

void StreamTransport::abort(int culprit, ErrorCode cause) {
  if (!control_) return;
  control_->abort(culprit, cause);
  // What was said when another rank's failure was heard may have been the call before.
  for (int channel = 0; channel < options_.channels; ++channel) announce(channel);
  given_up_.store(true, std::memory_order_relaxed);
  ring();
}

void StreamTransport::announce(int channel) {
  if (control_) control_->announce(static_cast<std::uint32_t>(channel), said(channel));
}

void StreamTransport::hear() {
  if (control_->failure()) given_up_.store(true, std::memory_order_relaxed);
  for (int channel = 0; channel < options_.channels; ++channel) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == group_.rank) continue;
      const Statement news = control_->announced(static_cast<std::uint32_t>(channel), peer);
      Flags& theirs = *flags(channel, peer);
      if (news.sequence != 0 && stated(theirs) != news) state(theirs, news);
    }
  }
  ring();
}

}  // namespace tutti::transport
