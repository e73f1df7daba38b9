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
  drop_oldest(0);
  order_.clear();
}

void Gate::drop_silent() {
  std::erase_if(waiting_, [this](const auto& entry) {
    const bool silent = !entry.second.challenged && entry.second.length < kHelloBytes;
    if (silent) network_.drop(entry.first);
    return silent;
  });
}

bool Gate::make_room() {
  const bool any = !waiting_.empty();
  drop_oldest(waiting_.size() / 2);
  return any;
}

void Gate::drop_oldest(std::size_t leaving) {
  while (waiting_.size() > leaving) {
    const ConnectionId oldest = order_.front().second;
    order_.pop_front();
    if (waiting_.erase(oldest) > 0) network_.drop(oldest);
  }
}

void Gate::accepted(ConnectionId connection, std::string_view from, Time now) {
  if (closed_) return network_.drop(connection);
  // Those that came and went in a moment leave only their names.
  if (order_.size() > 4 * (most_ + kStrangers))
    std::erase_if(order_, [&](const auto& entry) { return !holds(entry.second); });
  while (!order_.empty() && waiting_.size() >= most_) {
    const ConnectionId oldest = order_.front().second;
    order_.pop_front();
    if (holds(oldest)) refuse(oldest, Refusal::too_late);
  }
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
  const auto found = waiting_.find(connection);
  ++refused_;
  reasons_ |= 1u << static_cast<unsigned>(why);
  last_refusal_ = found->second.from + ": " + std::string(in_words(why));
  network_.send(connection, refusal_of(why));
  network_.close(connection);
  waiting_.erase(found);
}

void Gate::tick(Time now) {
  while (!order_.empty() && order_.front().first <= now) {
    const ConnectionId connection = order_.front().second;
    order_.pop_front();
    if (holds(connection)) refuse(connection, Refusal::too_late);
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
