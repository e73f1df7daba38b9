#include "engine/messages/mailbox.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace tutti::engine {

using transport::Arrival;
using transport::Label;
using transport::Piece;

namespace {

// Where messages pass through memory, a copy into it and one out of it cost less, for small ones, than a single copy by
// the system does. In a stream a label of its own costs a system call on both sides.
constexpr std::uint64_t kMostTogether = 8 << 10, kMostTogetherInStreams = 64 << 10;

// The most payload of a labelled message.
std::uint64_t most_together(const EdgeOffers& edge) {
  const std::uint64_t most = edge.operands_in_slots ? kMostTogether : kMostTogetherInStreams;
  if (edge.slot_bytes == 0) return most;
  return edge.slot_bytes < transport::kLabelBytes ? 0 : std::min(most, edge.slot_bytes - transport::kLabelBytes);
}

std::unique_ptr<Unexpected> make_unexpected(const Envelope& envelope) {
  const std::uint64_t bytes = units_of(envelope.statement).all_bytes();
  try {
    auto unexpected = std::make_unique<Unexpected>();
    static_cast<Envelope&>(*unexpected) = envelope;
    unexpected->bytes.reset(new std::byte[bytes]);
    return unexpected;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::system,
                "no memory to keep an unexpected message of " + std::to_string(bytes) + " bytes from rank " +
                    std::to_string(envelope.source) + ", which lies before one that is waited for; receive messages " +
                    "in the order they are sent, or use fewer tags",
                envelope.source);
  }
}

// Whether what is to be sent is in host memory.
bool is_there(const Message& message) { return message.call->staging == nullptr || message.call->staging->has_input(); }

bool fits(const Statement& message, const Statement& receive) {
  return message.type() == receive.type() && message.own_bytes() == receive.own_bytes() &&
         message.count <= receive.count;
}

// A receive of up to so many elements becomes one of as many as have come.
void shorten(Call& receive, const Statement& message) {
  const Units units = units_of(message);
  receive.elements = message.count;
  receive.count = units.count;
  receive.output_bytes = receive.moved_bytes = units.all_bytes();
  receive.detail = Statement::detail_of(message.own_bytes(), false, message.mark());
}

}  // namespace

Mailbox::Mailbox(transport::Transport& transport, Plans& plans, const choice::Chooser& chooser, int channel)
    : transport_(&transport),
      plans_(&plans),
      chooser_(&chooser),
      channel_(channel),
      rank_(transport.rank()),
      size_(transport.size()),
      matching_(size_),
      outbound_(index_of(size_)),
      inbound_(index_of(size_)),
      judged_(index_of(size_) + 1) {
  for (int peer = 0; peer < size_; ++peer) most_together_.push_back(most_together(transport.offers().of(rank_, peer)));
}

// The same at both ends, which know how long the message is.
void Mailbox::start(Operation& operation, Binding& binding, const Call& call, const Statement& statement) {
  const bool across = !transport_->offers().hosts.share(rank_, call.peer);
  const schedule::Algorithm* const row = chooser_->choose(call.question(across));
  binding.fingerprint = mix(fingerprint_of(statement, 0), programs_of(number_of(*row)));
  operation.start(plans_->get(call, *row, channel_), binding);
}

Mailbox::Outbound& Mailbox::outbound(int peer) {
  auto& out = outbound_[index_of(peer)];
  if (out) return *out;
  out = std::make_unique<Outbound>(*transport_);
  out->peer = peer;
  out->sender = &transport_->sender(channel_, peer);
  return *out;
}

Mailbox::Inbound& Mailbox::inbound(int peer) {
  auto& in = inbound_[index_of(peer)];
  if (in) return *in;
  in = std::make_unique<Inbound>(*transport_);
  in->head.source = peer;
  in->receiver = &transport_->receiver(channel_, peer);
  return *in;
}

void Mailbox::activate(Inbound& in) {
  if (!in.active) active_.push_back(&in);
  in.active = true;
}

void Mailbox::post(Message& message) {
  if (!message.sends()) {
    post_receive(message);
  } else if (message.call->peer == rank_) {
    if (!fetching_.empty() || !is_there(message)) return fetching_.push_back(&message);
    send_to_self(message);
  } else {
    post_send(message);
  }
}

void Mailbox::post_send(Message& message) {
  Outbound& out = outbound(message.call->peer);
  message.call->sequence = out.sequence++;
  out.said[message.call->sequence % Outbound::kRemembered] = message.call->statement();
  if (out.first == nullptr) {
    out.first = &message;
    sending_.push_back(&out);
  } else {
    out.last->behind = &message;
  }
  out.last = &message;
}

void Mailbox::send_to_self(Message& message) {
  Call& call = *message.call;
  call.sequence = to_self_++;
  auto unexpected = make_unexpected({rank_, call.statement()});
  if (call.input_bytes != 0) std::memcpy(unexpected->bytes.get(), call.input, call.input_bytes);
  unexpected->whole = true;
  end(message);
  while (auto* const taker = static_cast<Message*>(matching_.find_taker(*unexpected))) {
    if (!taker->probe) return deliver(*unexpected, *taker);
    answer(*taker, *unexpected);
  }
  matching_.keep(std::move(unexpected));
}

void Mailbox::post_receive(Message& message) {
  Matching::Found found = matching_.post(message);
  if (found.envelope == nullptr) {
    if (message.source != kAnySource && message.source != rank_) activate(inbound(message.source));
  } else if (message.probe) {
    answer(message, *found.envelope);
  } else if (found.unexpected == nullptr) {
    deliver(inbound(found.envelope->source), message);
  } else if (found.unexpected->whole) {
    deliver(*found.unexpected, message);
  } else if (agrees(message, *found.unexpected)) {
    Inbound& in = inbound(found.unexpected->source);
    in.claimed = std::move(found.unexpected);
    in.receive = &message;
  } else {
    inbound(found.unexpected->source).claimed = std::move(found.unexpected);  // it lands there; nothing moves any more
  }
}

Advance Mailbox::advance() {
  if (mismatched_peer_ >= 0) return Advance::stuck;
  bool moved = false;
  if (!fetching_.empty() || !returning_.empty()) moved = advance_devices();
  for (std::size_t i = 0; i < sending_.size();) {
    moved = advance_send(*sending_[i]) || moved;
    if (sending_[i]->first != nullptr) {
      ++i;
    } else {
      sending_[i] = sending_.back();
      sending_.pop_back();
    }
  }
  if (matching_.listens_to_all()) {
    const int first = matching_.first_source();
    for (int i = 0; i < size_; ++i) {
      const int peer = (first + i) % size_;
      if (peer != rank_) moved = advance_receive(inbound(peer)) || moved;
    }
    return moved ? Advance::moved : Advance::stuck;
  }
  for (std::size_t i = 0; i < active_.size();) {
    Inbound& in = *active_[i];
    moved = advance_receive(in) || moved;
    in.active = in.stage == Inbound::Stage::landing || matching_.listens(in.head.source);
    if (in.active) {
      ++i;
    } else {
      active_[i] = active_.back();
      active_.pop_back();
    }
  }
  return moved ? Advance::moved : Advance::stuck;
}

bool Mailbox::advance_devices() {
  bool moved = false;
  while (!fetching_.empty() && is_there(*fetching_.front())) {
    Message& message = *fetching_.front();
    fetching_.erase(fetching_.begin());
    send_to_self(message);
    moved = true;
  }
  for (std::size_t i = 0; i < returning_.size();) {
    if (!returning_[i]->call->staging->has_output()) {
      ++i;
      continue;
    }
    returning_[i]->ended = true;
    ended_.push_back(returning_[i]);
    returning_.erase(returning_.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

bool Mailbox::advance_send(Outbound& out) {
  bool moved = false;
  while (out.first != nullptr) {
    Message& message = *out.first;
    const Call& call = *message.call;
    const bool small = together(call.input_bytes, call.peer);
    if (!out.label_sent) {
      if (!is_there(message)) break;
      const Piece payload{const_cast<std::byte*>(call.input), small ? call.input_bytes : 0};  // only ever read
      if (!out.sender->try_send_labelled(std::bit_cast<Label>(call.statement()), payload, kLabelMark)) break;
      out.label_sent = moved = message.patience.moved = true;
      if (!small) {
        out.binding.input = call.input;
        out.binding.input_ref = call.input_ref;
        out.binding.count = call.count;
        out.binding.element_bytes = call.unit_bytes;
        start(out.operation, out.binding, call, call.statement());
        message.running = &out.operation;
      }
    }
    const Advance advance = !small                    ? out.operation.advance()
                            : out.sender->try_flush() ? Advance::finished
                                                      : Advance::stuck;
    if (advance != Advance::stuck) moved = message.patience.moved = true;
    if (advance != Advance::finished) break;
    out.first = message.behind;
    out.label_sent = false;
    end(message);
  }
  return moved;
}

// One message at most, so that a busy source leaves something for the others.
bool Mailbox::advance_receive(Inbound& in) {
  if (in.stage == Inbound::Stage::held) {
    if (!matching_.in_the_way(in.head.source)) return false;
    keep_unexpected(in);
    return true;
  }
  if (in.stage == Inbound::Stage::listening) return matching_.listens(in.head.source) && listen(in);
  const Advance advance = land(in);
  if (advance == Advance::stuck) return false;
  if (in.receive != nullptr) in.receive->patience.moved = true;
  if (in.unexpected != nullptr) in.cleared = true;
  if (advance == Advance::finished) finish_landing(in);
  return true;
}

bool Mailbox::listen(Inbound& in) {
  Label label;
  const Arrival arrival = in.receiver->try_label(label, kLabelMark);
  if (arrival == Arrival::none) return false;
  in.head.statement = std::bit_cast<Statement>(label);
  if (arrival == Arrival::other || !is_sound(in.head.statement, in.head.source, rank_)) {
    mismatch(in.head.source);
    return false;
  }
  in.small = together(units_of(in.head.statement).all_bytes(), in.head.source);
  if (!in.small && in.receiver->try_receive_labelled({}) != Arrival::whole) {  // its bytes follow
    mismatch(in.head.source);
    return false;
  }
  in.stage = Inbound::Stage::held;
  offer(in);
  return true;
}

Advance Mailbox::land(Inbound& in) {
  if (in.small) {
    const Arrival arrival = in.receiver->try_receive_labelled(in.payload);
    if (arrival == Arrival::other) mismatch(in.head.source);
    const bool moved = arrival == Arrival::moved || arrival == Arrival::whole;
    if (moved && in.receive != nullptr && in.unexpected == nullptr) in.receive->touched = true;
    return arrival == Arrival::whole ? Advance::finished : moved ? Advance::moved : Advance::stuck;
  }
  const Advance advance = in.operation.advance();
  if (in.operation.mismatched_peer() >= 0) mismatch(in.head.source);
  return advance;
}

void Mailbox::offer(Inbound& in) {
  while (auto* const taker = static_cast<Message*>(matching_.find_taker(in.head))) {
    if (!taker->probe) return deliver(in, *taker);
    answer(*taker, in.head);
  }
  matching_.hold(in.head);
}

void Mailbox::deliver(Inbound& in, Message& receive) {
  if (!agrees(receive, in.head)) return;
  in.receive = &receive;
  if (!in.small) receive.running = &in.operation;
  start_landing(in, receive.call->output);
}

void Mailbox::deliver(const Unexpected& unexpected, Message& receive) {
  if (!agrees(receive, unexpected)) return;
  if (receive.call->output_bytes != 0)
    std::memcpy(receive.call->output, unexpected.bytes.get(), receive.call->output_bytes);
  end(receive);
}

// The receive now knows whose message it takes, and says so; whether it is the one it was made for.
bool Mailbox::agrees(Message& receive, const Envelope& envelope) {
  Call& call = *receive.call;
  const Statement& theirs = envelope.statement;
  const Statement open = call.statement();
  call.root = call.peer = envelope.source;
  call.sequence = theirs.sequence - 1;
  call.kinds = Statement::kinds_of(Verb::send_recv, open.type(), 0, envelope.source, rank_);
  call.detail = Statement::detail_of(open.own_bytes(), open.up_to(), theirs.mark());
  if (open.up_to() && fits(theirs, open)) shorten(call, theirs);
  receive.received = {envelope.source, envelope.tag(), theirs.count};
  receive.patience.moved = true;
  if (call.statement() == theirs) return true;
  mismatch(envelope.source);
  differing_ = &receive;
  ends_ = {theirs, call.statement()};
  return false;
}

void Mailbox::start_landing(Inbound& in, std::byte* output) {
  const Units units = units_of(in.head.statement);
  in.stage = Inbound::Stage::landing;
  if (in.small) {
    in.payload = {output, units.all_bytes()};
    if (land(in) == Advance::finished) return finish_landing(in);
    return activate(in);
  }
  in.binding.output = output;
  in.binding.count = units.count;
  in.binding.element_bytes = units.bytes;
  if (in.receive != nullptr) {
    start(in.operation, in.binding, *in.receive->call, in.head.statement);
  } else {
    Call call;  // nobody has asked for it yet
    call.verb = Verb::send_recv;
    call.root = call.peer = in.head.source;
    call.moved_bytes = units.all_bytes();
    start(in.operation, in.binding, call, in.head.statement);
  }
  activate(in);
}

void Mailbox::keep_unexpected(Inbound& in) {
  auto unexpected = make_unexpected(in.head);
  in.cleared = true;
  in.unexpected = unexpected.get();
  start_landing(in, unexpected->bytes.get());
  matching_.keep(std::move(unexpected));
}

void Mailbox::finish_landing(Inbound& in) {
  in.stage = Inbound::Stage::listening;
  Message* const receive = std::exchange(in.receive, nullptr);
  if (in.unexpected != nullptr) in.unexpected->whole = true;
  in.unexpected = nullptr;
  if (in.claimed != nullptr) std::memcpy(receive->call->output, in.claimed->bytes.get(), receive->call->output_bytes);
  in.claimed.reset();
  if (receive != nullptr) end(*receive);
}

void Mailbox::answer(Message& probe, const Envelope& envelope) {
  probe.received = {envelope.source, envelope.tag(), units_of(envelope.statement).all_bytes()};
  end(probe);
}

void Mailbox::end(Message& message) {
  if (!message.sends() && message.call->staging != nullptr) {
    message.call->staging->start_output(message.call->output_bytes);
    return returning_.push_back(&message);
  }
  message.ended = true;
  ended_.push_back(&message);
}

void Mailbox::clear() {
  matching_.clear();
  for (const auto& out : outbound_) {
    if (out) out->first = out->last = nullptr;
  }
  for (const auto& in : inbound_) {
    if (in) in->receive = nullptr;
  }
  sending_.clear();
  active_.clear();
  ended_.clear();
  fetching_.clear();
  returning_.clear();
}

Statement Mailbox::sent(int peer, std::uint64_t sequence) const {
  if (peer == rank_ || outbound_[index_of(peer)] == nullptr || sequence == 0) return {};
  const Statement said = outbound_[index_of(peer)]->said[(sequence - 1) % Outbound::kRemembered];
  return said.sequence == sequence ? said : Statement{};
}

}  // namespace tutti::engine
