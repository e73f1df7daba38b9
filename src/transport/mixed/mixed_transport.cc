#include "transport/mixed/mixed_transport.h"

#include <algorithm>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr std::uint64_t kAgreement = 0x6d697865645f6f66;  // what the first messages of a group are known by

// Windows onto callers' buffers would need symmetric memory.
Offers offers_of(const Hosts& hosts, int ranks, const Offers& memory, const Offers& streams) {
  Offers offers = streams;
  offers.hosts = hosts;
  offers.across = streams.inside;
  if (hosts.most_on_one(ranks) == 1) return offers;
  offers.inside = memory.inside;
  offers.inside.windows_to_user = false;
  offers.scratch_bytes = std::min(memory.scratch_bytes, streams.scratch_bytes);
  return offers;
}

}  // namespace

MixedTransport::MixedTransport(Parts parts, const Deadline& deadline)
    : inner_(std::move(parts.inner)),
      outer_(std::move(parts.outer)),
      inside_(static_cast<std::size_t>(outer_->size()), kOutside),
      offers_(offers_of(parts.hosts, outer_->size(), parts.memory, outer_->offers())) {
  for (int peer = 0; peer < size(); ++peer) {
    if (!parts.hosts.share(rank(), peer)) continue;
    if (inner_) inside_[static_cast<std::size_t>(peer)] = static_cast<int>(neighbours_.size());
    neighbours_.push_back(peer);
  }
  if (inner_ ? inner_->size() != static_cast<int>(neighbours_.size()) || inner_->rank() != inside(rank())
             : neighbours_.size() > 1) {
    throw Error(ErrorCode::invalid_argument, "mixed: the ranks of the host are not those of its shared memory");
  }
  const bool mine = !inner_ || inner_->offers().inside.single_copy;
  if (parts.single_copy.value_or(false) && !mine)
    throw Error(ErrorCode::system, "ranks of this host can no longer read each other's memory, as they could before");
  offers_.inside.single_copy = parts.single_copy ? *parts.single_copy : all_say(mine, deadline);
}

Sender& MixedTransport::sender(int channel, int peer) {
  return inside(peer) == kOutside ? outer_->sender(channel, peer) : inner_->sender(channel, inside(peer));
}

Receiver& MixedTransport::receiver(int channel, int peer) {
  return inside(peer) == kOutside ? outer_->receiver(channel, peer) : inner_->receiver(channel, inside(peer));
}

Flags* MixedTransport::flags(int channel, int rank) {
  return inside(rank) == kOutside ? outer_->flags(channel, rank) : inner_->flags(channel, inside(rank));
}

std::byte* MixedTransport::scratch(int channel, int rank) {
  return inside(rank) == kOutside ? outer_->scratch(channel, rank) : inner_->scratch(channel, inside(rank));
}

std::uint32_t MixedTransport::prepare_sleep() {
  const std::uint32_t ticket = bell().prepare_sleep();
  if (inner_) outer_->arm();  // afterwards: the ring it asks for must come after the ticket
  return ticket;
}

std::optional<Failure> MixedTransport::failure() {
  if (auto failure = outer_->failure()) return failure;
  const auto failure = inner_ ? inner_->failure() : std::nullopt;
  if (!failure || !failure->died) return std::nullopt;
  const int dead = neighbours_[static_cast<std::size_t>(failure->rank)];
  if (outer_->departed(dead)) return std::nullopt;
  return Failure{dead, -1, true};
}

// The memory shows that a neighbour has left before the control plane can say why: not until it has, too, is that all.
bool MixedTransport::drained(int channel, int peer) const {
  return inside(peer) == kOutside ? outer_->drained(channel, peer)
                                  : departed(peer) && inner_->drained(channel, inside(peer));
}

void MixedTransport::abort(int culprit, ErrorCode cause) {
  outer_->abort(culprit, cause);
  // Peers on the host hear why from the outer transport as well; this makes them look at once.
  if (inner_) inner_->abort(culprit < 0 ? culprit : inside(culprit), cause);
}

// Up a binomial tree to rank 0, and down again: log p connections for a rank. The first messages of their edges.
bool MixedTransport::all_say(bool mine, const Deadline& deadline) {
  bool all = mine;
  int bit = 1;
  for (; bit < size() && (rank() & bit) == 0; bit *= 2) {
    if (rank() + bit < size()) all = receive_word(rank() + bit, deadline) && all;
  }
  if (rank() != 0) {
    send_word(rank() - bit, all, deadline);
    all = receive_word(rank() - bit, deadline);
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (rank() + bit < size()) send_word(rank() + bit, all, deadline);
  }
  return all;
}

template <class Attempt>
void MixedTransport::await(int peer, const Deadline& deadline, Attempt&& attempt) {
  const auto lost = [&](int who) {
    abort(who, ErrorCode::peer_lost);
    throw Error(ErrorCode::peer_lost, "rank " + std::to_string(who) + " ended before the group was made", who);
  };
  for (;;) {
    const std::uint32_t ticket = prepare_sleep();
    const bool left = departed(peer);  // asked first: what it sent before still counts
    if (attempt()) return;
    if (const auto failure = this->failure()) lost(failure->blamed >= 0 ? failure->blamed : failure->rank);
    if (left) lost(peer);
    if (deadline.passed()) {
      abort(peer, ErrorCode::timeout);
      throw Error(ErrorCode::timeout, "rank " + std::to_string(peer) + " did not arrive before the deadline", peer);
    }
    sleep(ticket, kLook);
  }
}

void MixedTransport::send_word(int peer, bool word, const Deadline& deadline) {
  std::byte byte{word};
  const Piece piece{&byte, 1};
  Sender& to = sender(0, peer);
  await(peer, deadline, [&] { return to.try_send({&piece, 1}, 1, kAgreement); });
  await(peer, deadline, [&] { return to.try_flush(); });
}

bool MixedTransport::receive_word(int peer, const Deadline& deadline) {
  std::byte byte{};
  const Piece piece{&byte, 1};
  Receiver& from = receiver(0, peer);
  await(peer, deadline, [&] { return from.try_receive({&piece, 1}, 1, kAgreement) == Arrival::whole; });
  return byte == std::byte{1};
}

}  // namespace tutti::transport
