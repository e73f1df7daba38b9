#include "rendezvous/linker.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

using std::chrono::seconds;

// A peer listens as long as it lives, so whoever refuses has ended; word of that should come first.
constexpr Time kRefusedPatience = seconds(3);
constexpr Time kLongestDialling = seconds(20);

}  // namespace

Linker::Linker(Network& network, int rank, LinkOptions options, std::function<bool(int rank)> is_gone)
    : network_(network), rank_(rank), options_(std::move(options)), is_gone_(std::move(is_gone)) {}

void Linker::want(int rank, std::uint32_t channel, Time now) {
  const Key key{rank, channel};
  if (wanted_.contains(key)) return;
  if (is_gone_(rank)) return absent_.push_back(key);
  Wanted& wanted = wanted_[key];
  wanted.since = now;
  const Purpose purpose = rank < rank_ ? Purpose::data : Purpose::call_back;
  wanted.dialer.emplace(options_.dialer_to(network_, purpose, channel, rank_, rank));
  wanted.dialer->dial(now);
  dialled_[wanted.dialer->connection()] = key;
}

std::optional<Refusal> Linker::judge(const Hello& hello) const {
  const int from = static_cast<int>(hello.from);
  const bool due = hello.channel < options_.channels && !is_gone_(from) &&
                   (hello.purpose == Purpose::data ? from > rank_ : from < rank_);
  if (!due) return Refusal::unexpected;
  // What was sent on the first would be lost with it.
  const auto found = wanted_.find({from, hello.channel});
  const bool twice = hello.purpose == Purpose::data && found != wanted_.end() && found->second.stands;
  return twice ? std::optional(Refusal::unexpected) : std::nullopt;
}

void Linker::admit(const Hello& hello, ConnectionId connection, Time now) {
  const Key key{static_cast<int>(hello.from), hello.channel};
  if (is_gone_(key.first)) return network_.drop(connection);  // it left without knowing that it is welcome
  if (hello.purpose == Purpose::call_back) {
    network_.close(connection);
    return want(key.first, key.second, now);
  }
  Wanted& wanted = wanted_[key];
  if (wanted.stands) return network_.drop(connection);  // two at once: one of them was given up by its own end
  stand(wanted, key, connection, {});
}

void Linker::stand(Wanted& wanted, const Key& key, ConnectionId connection, std::span<const std::byte> first) {
  if (wanted.dialer && wanted.dialer->connection() != connection) wanted.dialer->hang_up();
  if (wanted.dialer) std::erase_if(dialled_, [&](const auto& entry) { return entry.second == key; });
  wanted.dialer.reset();
  wanted.stands = true;
  network_.hold(connection);
  made_.push_back({key, connection, Bytes(first.begin(), first.end())});
}

void Linker::forget(int rank) {
  for (auto entry = wanted_.lower_bound({rank, 0}); entry != wanted_.end() && entry->first.first == rank;) {
    auto& [key, wanted] = *entry;
    // An attempt that is under way may have come so far that the peer has sent something behind its welcome.
    const bool may_stand = wanted.dialer && rank < rank_ && wanted.dialer->connection() != 0;
    if (wanted.stands || may_stand) {
      ++entry;
      continue;
    }
    if (wanted.dialer) dialled_.erase(wanted.dialer->connection());
    if (wanted.dialer) wanted.dialer->hang_up();
    absent_.push_back(key);
    entry = wanted_.erase(entry);
  }
}

void Linker::close() {
  for (auto& [key, wanted] : wanted_) {
    if (wanted.dialer) wanted.dialer->hang_up();
  }
  for (const Made& made : made_) network_.close(made.connection);
  made_.clear();
  wanted_.clear();
  dialled_.clear();
}

bool Linker::holds(ConnectionId connection) const { return dialled_.contains(connection); }

Linker::Entry Linker::find(ConnectionId connection) {
  const auto found = dialled_.find(connection);
  return found == dialled_.end() ? wanted_.end() : wanted_.find(found->second);
}

void Linker::connected(ConnectionId connection, Time now) {
  if (const auto entry = find(connection); entry != wanted_.end()) entry->second.dialer->connected(now);
}

void Linker::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  const auto entry = find(connection);
  if (entry == wanted_.end()) return;
  auto& [key, wanted] = *entry;
  const auto rest = wanted.dialer->received(bytes, now);
  switch (wanted.dialer->state()) {
    case Dialer::State::admitted:
      if (key.first < rank_) return stand(wanted, key, connection, rest);
      dialled_.erase(connection);
      wanted.dialer->hang_up();
      wanted.dialer.reset();  // the peer knows, and dials
      return;
    case Dialer::State::refused:
      dialled_.erase(connection);
      if (!is_gone_(key.first)) {
        return give_up(entry, wanted.dialer->refusal_in_words("rank " + std::to_string(rank_),
                                                              "rank " + std::to_string(key.first)));
      }
      wanted.dialer.reset();
      return forget(key.first);
    case Dialer::State::resting: dialled_.erase(connection); return;
    default: return;
  }
}

void Linker::closed(ConnectionId connection, End end, std::string_view words, Time now) {
  const auto entry = find(connection);
  if (entry == wanted_.end()) return;
  dialled_.erase(connection);
  auto& [key, wanted] = *entry;
  wanted.dialer->closed(end, words, now);
  if (is_gone_(key.first)) return forget(key.first);
  if (end == End::exhausted) give_up(entry, std::string(words), true);
}

void Linker::give_up(Entry entry, const std::string& why, bool ours) {
  if (entry->second.dialer) entry->second.dialer->hang_up();
  troubles_.push_back({entry->first.first, why, ours});
  entry->second.dialer.reset();
}

void Linker::tick(Time now) {
  for (auto entry = wanted_.begin(); entry != wanted_.end(); ++entry) {
    auto& [key, wanted] = *entry;
    if (!wanted.dialer) continue;
    Dialer& dialer = *wanted.dialer;
    const bool refused = dialer.failing_since() != kNever && dialer.last_end() == End::refused &&
                         now - dialer.failing_since() >= kRefusedPatience;
    if (refused || now - wanted.since >= kLongestDialling) {
      dialled_.erase(dialer.connection());
      give_up(entry, "rank " + std::to_string(rank_) + " cannot link up with rank " + std::to_string(key.first) +
                         " at " + dialer.to() + ": " + dialer.trouble() +
                         "; see whether a firewall keeps the hosts apart, or set TUTTI_INTERFACE to the network that "
                         "joins them");
      continue;
    }
    const ConnectionId before = dialer.connection();
    dialer.tick(now);
    if (dialer.connection() == before) continue;
    dialled_.erase(before);
    if (dialer.connection() != 0) dialled_[dialer.connection()] = key;
  }
}

Time Linker::next_tick() const {
  Time next = kNever;
  for (const auto& [key, wanted] : wanted_) {
    if (!wanted.dialer) continue;
    next = std::min({next, wanted.dialer->next_tick(), wanted.since + kLongestDialling});
    if (wanted.dialer->failing_since() != kNever && wanted.dialer->last_end() == End::refused)
      next = std::min(next, wanted.dialer->failing_since() + kRefusedPatience);
  }
  return next;
}

}  // namespace tutti::rendezvous
