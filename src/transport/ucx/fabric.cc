// What a fabric sends and receives; how it gets to know others is in fabric_links.cc.
#include "transport/ucx/fabric.h"

#include <cerrno>
#include <cstring>

namespace tutti::transport {
namespace {

void scatter(std::span<const Piece> pieces, const std::byte* from) {
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(piece.data, from, piece.bytes);
    from += piece.bytes;
  }
}

}  // namespace

UcxStreams& UcxFabric::streams_of(UcxPeer& peer, std::uint64_t group) {
  std::unique_ptr<UcxStreams>& streams = peer.groups[group];
  if (!streams) {
    streams = std::make_unique<UcxStreams>();
    streams->channels.resize(static_cast<std::size_t>(job_.channels));
    std::uint16_t channel = 0;
    for (UcxStream& stream : streams->channels) {
      stream.peer = &peer;
      stream.group = group;
      stream.channel = channel++;
    }
  }
  return *streams;
}

UcxStream& UcxFabric::open(int rank, std::uint64_t group, int channel) {
  UcxStream* stream = nullptr;
  bool first = false;
  {
    const Turn turn(*this);
    UcxStreams& streams = streams_of(peer(rank), group);
    streams.state = UcxStreams::State::open;
    stream = &streams.channels[static_cast<std::size_t>(channel)];
    first = !std::exchange(peer(rank).wanted, true);
  }
  if (first) links_->want(rank, 0);
  return *stream;
}

void UcxFabric::close(std::uint64_t group, std::span<const int> ranks) {
  const Turn turn(*this);
  for (const int rank : ranks) {
    const auto found = peer(rank).groups.find(group);
    if (found == peer(rank).groups.end()) continue;
    found->second->state = UcxStreams::State::closed;
    drop(*found->second);
  }
}

void UcxFabric::drop(UcxStreams& streams) {
  for (UcxStream& stream : streams.channels) {
    parcels_->forget(stream);
    for (UcxStream::Arrived& arrived : stream.arrived) {
      if (arrived.data != nullptr) worker_.release(arrived.data);
      arrived = {};
    }
    if (stream.landing != nullptr && stream.landed) parcels_->give_back(*stream.landing);
    stream.landing = nullptr;  // what is still coming is given back when it has come
    stream.landed = false;
  }
}

std::chrono::nanoseconds UcxFabric::quiet_for(int rank) {
  const std::lock_guard lock(mutex_);
  const auto heard = peer(rank).heard;
  if (heard == decltype(heard){}) return std::chrono::nanoseconds::max();
  return std::chrono::steady_clock::now() - heard;
}

bool UcxFabric::progress() {
  ++driven_;
  const bool went_on = worker_.progress();
  if (went_on) happened_ = true;
  while (!to_fetch_.empty()) {
    UcxStream& stream = *to_fetch_.back();
    to_fetch_.pop_back();
    fetch_next(stream);
  }
  return went_on;
}

bool UcxFabric::settle() {
  const Turn turn(*this);
  for (int tries = 0; tries < kMostRounds; ++tries) {
    progress();
    if (happened_) return false;
    if (worker_.arm()) return true;
  }
  return false;
}

bool UcxFabric::arrive(const UcxHeader& header, void* data, std::size_t bytes, bool rendezvous) {
  if (header.from >= peers_.size() || header.channel >= job_.channels) return false;
  UcxPeer& from = *peers_[header.from];
  if (!from.link.started() || header.key != from.our_key) return false;
  happened_ = true;
  from.heard = std::chrono::steady_clock::now();
  if (header.kind == UcxHeader::Kind::credit) {
    const auto found = from.groups.find(header.group);
    if (found != from.groups.end()) found->second->channels[header.channel].take_credit(header.taken);
    return false;
  }
  ++from.arrivals;
  confirm(from);
  UcxStreams& streams = streams_of(from, header.group);
  UcxStream& stream = streams.channels[header.channel];
  ++stream.arrivals;
  stream.take_credit(header.taken);
  if (streams.state >= UcxStreams::State::closed) {
    if (streams.state == UcxStreams::State::left && streams.have_all_come()) from.groups.erase(header.group);
    return false;
  }
  UcxStream::Arrived& place = stream.arrived[header.number % UcxStream::kWindow];
  if (header.number - stream.taken >= UcxStream::kWindow || place.here || bytes != header.bytes || bytes > kSlotBytes) {
    from.breakage.note(EPROTO);
    return false;
  }
  place = {true, rendezvous, header.bytes, header.fingerprint, bytes > 0 ? data : nullptr};
  if (rendezvous && header.number == stream.taken) to_fetch_.push_back(&stream);
  return bytes > 0;
}

void UcxFabric::end(Parcel& parcel, bool good) {
  --parcel.peer->under_way;
  if (!good) parcel.peer->breakage.note(ECONNRESET);
  UcxStream* const stream = parcel.stream;
  if (stream != nullptr && parcel.fetched) {
    stream->landed = good;
    if (good) return;
    stream->landing = nullptr;  // it never comes, and neither does what is behind it
  } else if (stream != nullptr) {
    --stream->under_way;
  }
  parcels_->give_back(parcel);
}

void UcxFabric::flushed(UcxPeer& peer, bool good) {
  peer.flushing = false;
  happened_ = true;
  if (!good) return peer.breakage.note(ECONNRESET);
  peer.settled = true;
  confirm(peer);
}

void UcxFabric::broken(UcxPeer& peer, int number) {
  peer.lost = true;
  peer.breakage.note(number);
  happened_ = true;
}

bool UcxFabric::may_send(const UcxStream& stream, bool large) const {
  return !stream.peer->breakage.noted() && stream.sent - stream.credited < UcxStream::kWindow &&
         (!large || stream.large < UcxStream::kMostLarge);
}

bool UcxFabric::has_credit(UcxStream& stream) {
  const Turn turn(*this);
  if (!may_send(stream, true)) progress();
  return may_send(stream, true);
}

bool UcxFabric::send(UcxStream& stream, std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  const Turn turn(*this);
  const bool large = bytes > kEagerBytes;
  if (!may_send(stream, large)) progress();
  if (!may_send(stream, large)) return false;
  UcxPeer& to = *stream.peer;
  Parcel& parcel = parcels_->take(bytes);
  parcel.peer = &to;
  parcel.stream = &stream;
  parcel.fetched = false;
  parcel.header = header_of(stream, UcxHeader::Kind::message);
  parcel.header.fingerprint = fingerprint;
  parcel.header.bytes = static_cast<std::uint32_t>(bytes);
  parcel.header.number = stream.sent++;
  std::byte* at = parcel.memory.get();
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(at, piece.data, piece.bytes);
    at += piece.bytes;
  }
  ++stream.under_way;
  if (large) ++stream.large;
  stream.is_large[parcel.header.number % UcxStream::kWindow] = large;
  ++to.sent;
  give(to, parcel);
  return !to.breakage.noted();
}

UcxHeader UcxFabric::header_of(UcxStream& stream, UcxHeader::Kind kind) const {
  UcxHeader header;
  header.group = stream.group;
  header.channel = stream.channel;
  header.kind = kind;
  header.from = static_cast<std::uint32_t>(job_.rank);
  header.taken = stream.told_taken = stream.taken;
  stream.untold_large = 0;
  return header;
}

void UcxFabric::give(UcxPeer& to, Parcel& parcel) {
  if (to.endpoint == nullptr) return to.early.push_back(&parcel);
  parcel.header.key = to.their_key;
  ++to.under_way;
  worker_.send(to.endpoint, parcel, parcel.header.bytes > kEagerBytes);
}

bool UcxFabric::flush(UcxStream& stream) {
  const Turn turn(*this);
  if (stream.under_way > 0) progress();
  // Of what UCX is done with a part may wait in its own memory for a socket that is full: attend() sees to that. To
  // flush the endpoint would be too much: over TCP that waits for an answer of the other process.
  return stream.under_way == 0;
}

void UcxFabric::start_flush(UcxPeer& peer) {
  if (peer.flushing || !peer.usable()) return;
  peer.flushing = true;
  worker_.flush(peer.endpoint, peer);
}

void UcxFabric::tell_taken(UcxStream& stream) {
  UcxPeer& to = *stream.peer;
  const bool is_time =
      stream.taken - stream.told_taken >= UcxStream::kWindow / 2 || stream.untold_large > UcxStream::kMostLarge / 2;
  if (!is_time || !to.usable()) return;
  Parcel& parcel = parcels_->take(0);
  parcel.peer = &to;
  parcel.fetched = false;
  parcel.header = header_of(stream, UcxHeader::Kind::credit);
  give(to, parcel);
}

const UcxStream::Arrived* UcxFabric::front(UcxStream& stream) {
  if (!stream.next().here) progress();
  return stream.next().here ? &stream.next() : nullptr;
}

const std::byte* UcxFabric::payload(UcxStream& stream) {
  const UcxStream::Arrived& first = stream.next();
  if (!first.rendezvous) return static_cast<const std::byte*>(first.data);
  if (!stream.landed) progress();
  return stream.landed ? stream.landing->memory.get() : nullptr;
}

void UcxFabric::fetch_next(UcxStream& stream) {
  UcxStream::Arrived& first = stream.next();
  if (!first.here || !first.rendezvous || first.data == nullptr) return;
  Parcel& parcel = parcels_->take(first.bytes);
  parcel.peer = stream.peer;
  parcel.stream = &stream;
  parcel.fetched = true;
  parcel.header.bytes = first.bytes;
  stream.landing = &parcel;
  ++stream.peer->under_way;
  worker_.fetch(std::exchange(first.data, nullptr), parcel);
}

void UcxFabric::finish(UcxStream& stream) {
  UcxStream::Arrived& first = stream.next();
  if (stream.landing != nullptr) parcels_->give_back(*std::exchange(stream.landing, nullptr));
  stream.landed = false;
  if (first.data != nullptr) worker_.release(first.data);
  if (first.rendezvous) ++stream.untold_large;
  first = {};
  ++stream.taken;
  fetch_next(stream);
  tell_taken(stream);
}

Arrival UcxFabric::hear(UcxStream& stream, std::uint64_t fingerprint) {
  const Turn turn(*this);
  const UcxStream::Arrived* const first = front(stream);
  if (first == nullptr) return Arrival::none;
  return first->fingerprint == fingerprint ? Arrival::whole : Arrival::other;
}

bool UcxFabric::ready(UcxStream& stream) {
  const Turn turn(*this);
  return front(stream) != nullptr;
}

Arrival UcxFabric::receive(UcxStream& stream, std::span<const Piece> pieces, std::size_t bytes,
                           std::uint64_t fingerprint) {
  const Turn turn(*this);
  const UcxStream::Arrived* const first = front(stream);
  if (first == nullptr) return Arrival::none;
  if (first->bytes != bytes || first->fingerprint != fingerprint) return Arrival::other;
  if (bytes > 0) {
    const std::byte* const from = payload(stream);
    if (from == nullptr) return Arrival::none;
    scatter(pieces, from);
  }
  finish(stream);
  return Arrival::whole;
}

Arrival UcxFabric::label(UcxStream& stream, Label& label, std::uint64_t fingerprint) {
  const Turn turn(*this);
  const UcxStream::Arrived* const first = front(stream);
  if (first == nullptr) return Arrival::none;
  if (first->bytes < kLabelBytes || first->fingerprint != fingerprint) return Arrival::other;
  const std::byte* const from = payload(stream);
  if (from == nullptr) return Arrival::none;
  std::memcpy(label.data(), from, kLabelBytes);
  return Arrival::whole;
}

Arrival UcxFabric::receive_labelled(UcxStream& stream, Piece piece) {
  const Turn turn(*this);
  // Its label was seen: it is here as a whole.
  if (stream.next().bytes != kLabelBytes + piece.bytes) return Arrival::other;
  scatter({&piece, 1}, payload(stream) + kLabelBytes);
  finish(stream);
  return Arrival::whole;
}

}  // namespace tutti::transport
