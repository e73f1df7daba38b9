#include "rendezvous/gate.h"

#include <algorithm>

namespace tutti::rendezvous {

void Gate::open(Terms terms) {
  terms_ = std::move(terms);
  std::vector<ConnectionId> complete;
  for (const auto& [connection, waiting] : waiting_) {
    if (waiting.length == kHelloBytes && !waiting.challenged) complete.push_back(connection);
  }
  for (const ConnectionId connection : complete) answer_hello(connection, waiting_.at(connection));
}

void Gate::close() {
  closed_ = true;
  for (const auto& [connection, waiting] : waiting_) network_.drop(connection);
  waiting_.clear();
  order_.clear();
}

void Gate::drop_silent() {
  std::erase_if(waiting_, [this](const auto& entry) {
    const bool silent = is_silent(entry.second);
    if (silent) network_.drop(entry.first);
    return silent;
  });
}

bool Gate::make_room() {
  const std::size_t leaving = waiting_.size() / 2;
  const bool any = !waiting_.empty();
  while (waiting_.size() > leaving) {
    const ConnectionId first = first_to_go();
    waiting_.erase(first);
    network_.drop(first);
  }
  return any;
}

// A rank says all of its hello as soon as it is connected, so that a crowd of silent strangers keeps none out.
ConnectionId Gate::first_to_go() {
  while (!holds(order_.front().second)) order_.pop_front();
  const auto silent = std::ranges::find_if(order_, [this](const auto& entry) {
    const auto found = waiting_.find(entry.second);
    return found != waiting_.end() && is_silent(found->second);
  });
  return (silent == order_.end() ? order_.front() : *silent).second;
}

void Gate::accepted(ConnectionId connection, std::string_view from, Time now) {
  if (closed_) return network_.drop(connection);
  // Those that came and went in a moment leave only their names.
  if (order_.size() > 4 * (most_ + kStrangers))
    std::erase_if(order_, [&](const auto& entry) { return !holds(entry.second); });
  while (!waiting_.empty() && waiting_.size() >= most_) send_away(first_to_go());
  Waiting waiting;
  waiting.from = from.substr(0, 128);
  waiting_.emplace(connection, std::move(waiting));
  order_.emplace_back(now + kHandshakeTime, connection);
}

std::optional<Refusal> Gate::judge(const Waiting& waiting) const {
  const std::optional<Hello> hello = decode_hello(waiting.hello);
  if (!hello) return Refusal::not_tutti;
  if (hello->version != kProtocolVersion) return Refusal::other_version;
  if (hello->job != terms_->job) return Refusal::other_job;
  if (hello->to != terms_->self) return Refusal::other_rank;
  return terms_->judge ? terms_->judge(*hello) : std::nullopt;
}

void Gate::answer_hello(ConnectionId connection, Waiting& waiting) {
  if (const auto refusal = judge(waiting)) return refuse(connection, *refusal);
  if (terms_->comes_early && terms_->comes_early(*decode_hello(waiting.hello))) return;
  network_.random(waiting.nonce);
  waiting.challenged = true;
  waiting.length = 0;
  network_.send(connection, challenge_of(terms_->token, waiting.hello, waiting.nonce));
}

std::optional<Hello> Gate::received(ConnectionId connection, std::span<const std::byte> bytes) {
  Waiting& waiting = waiting_.at(connection);
  const std::span<std::byte> kept = waiting.challenged ? std::span<std::byte>(waiting.proof) : waiting.hello;
  // An honest client never sends ahead, so whatever does not fit is no handshake.
  if (bytes.size() > kept.size() - waiting.length) {
    refuse(connection, Refusal::not_tutti);
    return std::nullopt;
  }
  std::ranges::copy(bytes, kept.begin() + static_cast<std::ptrdiff_t>(waiting.length));
  waiting.length += bytes.size();
  if (waiting.length < kept.size()) return std::nullopt;
  if (!waiting.challenged) {
    if (terms_) answer_hello(connection, waiting);
    return std::nullopt;
  }
  if (!proves(waiting.proof, terms_->token, waiting.hello, waiting.nonce)) {
    refuse(connection, Refusal::wrong_token);
    return std::nullopt;
  }
  const std::optional<Hello> hello = decode_hello(waiting.hello);
  network_.send(connection, welcome());
  waiting_.erase(connection);
  return hello;
}

void Gate::closed(ConnectionId connection) {
  const auto found = waiting_.find(connection);
  if (found == waiting_.end()) return;
  if (found->second.length > 0 || found->second.challenged) {
    ++refused_;
    last_refusal_ = found->second.from + ": ended before it said who it is";
  }
  waiting_.erase(found);
}

void Gate::refuse(ConnectionId connection, Refusal why) {
  note(waiting_.at(connection), why);
  network_.send(connection, refusal_of(why));
  network_.close(connection);
  waiting_.erase(connection);
}

// A closing connection keeps its descriptor until the other end has read why; whoever said nothing is owed nothing.
void Gate::send_away(ConnectionId connection) {
  const Waiting& waiting = waiting_.at(connection);
  if (!is_silent(waiting)) return refuse(connection, Refusal::too_late);
  note(waiting, Refusal::too_late);
  network_.drop(connection);
  waiting_.erase(connection);
}

void Gate::note(const Waiting& waiting, Refusal why) {
  ++refused_;
  reasons_ |= 1u << static_cast<unsigned>(why);
  last_refusal_ = waiting.from + ": " + std::string(in_words(why));
}

void Gate::tick(Time now) {
  while (!order_.empty() && order_.front().first <= now) {
    const ConnectionId connection = order_.front().second;
    order_.pop_front();
    if (holds(connection)) send_away(connection);
  }
}

Time Gate::next_tick() const { return order_.empty() ? kNever : order_.front().first; }

std::string Gate::refusals() const {
  if (refused_ == 0) return "";
  const std::string many =
      refused_ == 1 ? "1 connection was refused, " : std::to_string(refused_) + " connections were refused, the last ";
  return many + "from " + last_refusal_;
}

}  // namespace tutti::rendezvous
