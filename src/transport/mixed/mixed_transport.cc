#include "transport/mixed/mixed_transport.h"

#include <algorithm>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

// 0 stands for no bound.
std::uint64_t smaller_bound(std::uint64_t a, std::uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

Offers offers_of_both(const Offers& inner, const Offers& outer) {
  Offers offers = outer;
  offers.windows_to_scratch = false;
  offers.windows_to_user = false;
  offers.operands_in_slots = false;
  offers.channels = std::min(inner.channels, outer.channels);
  offers.credits = std::min(inner.credits, outer.credits);
  offers.slot_bytes = smaller_bound(inner.slot_bytes, outer.slot_bytes);
  return offers;
}

}  // namespace

MixedTransport::MixedTransport(std::unique_ptr<Transport> inner, std::vector<int> inner_ranks,
                               std::unique_ptr<Transport> outer, std::function<void()> arm)
    : inner_(std::move(inner)),
      outer_(std::move(outer)),
      arm_(std::move(arm)),
      inner_ranks_(std::move(inner_ranks)),
      inside_(static_cast<std::size_t>(outer_->size()), kOutside),
      offers_(offers_of_both(inner_->offers(), outer_->offers())) {
  const auto own = static_cast<std::size_t>(inner_->rank());
  if (inner_ranks_.size() != static_cast<std::size_t>(inner_->size()) || inner_ranks_[own] != outer_->rank()) {
    throw Error(ErrorCode::invalid_argument, "mixed: the ranks of the host are not those of its shared memory");
  }
  for (std::size_t i = 0; i < inner_ranks_.size(); ++i) {
    inside_[static_cast<std::size_t>(inner_ranks_[i])] = static_cast<int>(i);
  }
}

Sender& MixedTransport::sender(int channel, int peer) {
  return inside(peer) == kOutside ? outer_->sender(channel, peer) : inner_->sender(channel, inside(peer));
}

Receiver& MixedTransport::receiver(int channel, int peer) {
  return inside(peer) == kOutside ? outer_->receiver(channel, peer) : inner_->receiver(channel, inside(peer));
}

std::uint32_t MixedTransport::prepare_sleep() {
  const std::uint32_t ticket = inner_->prepare_sleep();
  arm_();  // afterwards: the ring it asks for must come after the ticket
  return ticket;
}

std::optional<Failure> MixedTransport::failure() {
  if (auto failure = outer_->failure()) return failure;
  const auto failure = inner_->failure();
  if (!failure || !failure->died) return std::nullopt;
  const int dead = inner_ranks_[static_cast<std::size_t>(failure->rank)];
  if (outer_->departed(dead)) return std::nullopt;
  return Failure{dead, -1, true};
}

bool MixedTransport::drained(int channel, int peer) const {
  return inside(peer) == kOutside ? outer_->drained(channel, peer) : inner_->drained(channel, inside(peer));
}

void MixedTransport::abort(int culprit, ErrorCode cause) {
  outer_->abort(culprit, cause);
  // Peers on the host hear why from the outer transport as well; this makes them look at once.
  inner_->abort(culprit < 0 ? culprit : inside(culprit), cause);
}

}  // namespace tutti::transport
