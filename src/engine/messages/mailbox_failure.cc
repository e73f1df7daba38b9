// When waiting for a message is in vain, and how that is said.
#include <algorithm>
#include <utility>

#include "engine/messages/mailbox.h"

namespace tutti::engine {
namespace {

// Long enough for a slow link to take the next part of a message that needs no receiver yet.
constexpr std::chrono::milliseconds kCrossesAfter{1000};

}  // namespace

Message* Mailbox::find_hopeless() {
  diagnosis_ = {};
  if (mismatched_peer_ >= 0) {
    // Where no receive is known, the first one under way that the peer has a part in speaks for it.
    diagnosis_.kind = Diagnosis::Kind::mismatch;
    diagnosis_.blocked = {Blocked::On::message, mismatched_peer_};
    if (differing_ != nullptr) return differing_;
    if (Message* const landing = inbound(mismatched_peer_).receive) return landing;
    for (ReceivePattern* const wanted : matching_.waiting()) {
      if (wanted->source == kAnySource || wanted->source == mismatched_peer_) return static_cast<Message*>(wanted);
    }
  }
  for (Outbound* const out : sending_) {
    if (is_hopeless(*out->first)) return out->first;
  }
  return find_hopeless_receive();
}

Message* Mailbox::find_hopeless_receive() {
  bool cleared = false;
  for (const auto& in : inbound_) {
    if (in == nullptr) continue;
    if (in->receive != nullptr && is_hopeless(*in->receive)) return in->receive;
    cleared = cleared || in->cleared;
  }
  std::fill(judged_.begin(), judged_.end(), std::uint8_t{0});
  Message* hopeless = nullptr;
  for (ReceivePattern* const wanted : matching_.waiting()) {
    if (std::exchange(judged_[index_of(wanted->source + 1)], std::uint8_t{1}) != 0) continue;
    Message& receive = *static_cast<Message*>(wanted);
    const bool any = wanted->source == kAnySource;
    const bool other = !any && wanted->source != rank_;
    if ((any && cleared) || (other && inbound(wanted->source).cleared)) receive.patience.moved = true;
    if (hopeless == nullptr && is_hopeless(receive)) hopeless = &receive;
  }
  for (const auto& in : inbound_) {
    if (in != nullptr) in->cleared = false;
  }
  return hopeless;
}

bool Mailbox::is_hopeless(Message& message) {
  Message::Patience& patience = message.patience;
  if (patience.moved) {
    patience.moved = patience.announced = false;
    patience.deadline = Deadline::after(message.call->timeout);
    patience.announcement = Deadline::after(kAnnounceAfter);
    patience.crossing = Deadline::after(kCrossesAfter);
  }
  if (!patience.announced && patience.announcement.passed()) {
    patience.announced = true;
    for (int channel = 0; channel <= channel_; ++channel) transport_->announce(channel);
  }
  diagnosis_.blocked = blocked(message);
  // Asked before the failure: a peer that gave up and then left has said so first.
  const bool departed = all_departed(diagnosis_.blocked);
  if (const auto failure = transport_->failure()) {
    diagnosis_.failure = *failure;
    diagnosis_.kind = Diagnosis::Kind::failure;
  } else if (departed) {
    diagnosis_.kind = Diagnosis::Kind::departed;
  } else if (patience.deadline.passed()) {
    diagnosis_.kind = Diagnosis::Kind::timeout;
    diagnosis_.timeout = message.call->timeout;
  }
  return diagnosis_.any();
}

// Whether nobody is left who could end what the message waits for.
bool Mailbox::all_departed(const Blocked& blocked) const {
  if (blocked.peer == rank_ || size_ == 1) return false;
  if (blocked.peer >= 0) return transport_->drained(channel_, blocked.peer);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !transport_->drained(channel_, peer)) return false;
  }
  return true;
}

Blocked Mailbox::blocked(const Message& message) const {
  if (message.sends() && message.call->staging != nullptr && !message.call->staging->input_seen())
    return {Blocked::On::device, rank_};
  if (message.running != nullptr) {
    const Blocked blocked = message.running->blocked();
    if (blocked.on != Blocked::On::nothing) return blocked;
  }
  // A receive that has found its message waits for the rest of it.
  return {message.sends() ? Blocked::On::credit : Blocked::On::message, message.call->peer};
}

std::string Mailbox::where(const Message& message) const {
  const bool known = message.running != nullptr;
  std::string text = words_of(diagnosis_.blocked, known ? &message.running->plan()->lowered.program : nullptr);
  if (message.sends() || known) return text;
  const std::string others = matching_.words_of_others(message);
  if (!others.empty()) text += "; messages that nobody has received: " + others;
  return text;
}

}  // namespace tutti::engine
