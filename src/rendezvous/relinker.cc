#include "rendezvous/relinker.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

// Word of how a rank has ended should come first.
constexpr Time kRelinkPatience = std::chrono::seconds(3);

}  // namespace

void Relinker::seek(const std::vector<int>& ranks, Time now) {
  for (const int rank : ranks) {
    if (sought_.contains(rank)) continue;
    Dialer dialer = options_.dialer_to(network_, Purpose::control, 0, rank_, rank);
    sought_.emplace(rank, Sought{std::move(dialer), now}).first->second.dialer.dial(now);
  }
}

void Relinker::drop(const std::function<bool(int rank)>& over) {
  for (auto entry = sought_.begin(); entry != sought_.end();) {
    auto& [rank, sought] = *entry;
    const bool dropped = over(rank) || sought.dialer.state() == Dialer::State::refused;
    if (dropped) sought.dialer.hang_up();
    entry = dropped ? sought_.erase(entry) : std::next(entry);
  }
}

bool Relinker::is_refused_by(int rank) const {
  const auto found = sought_.find(rank);
  if (found == sought_.end()) return false;
  const Dialer& dialer = found->second.dialer;
  return dialer.failing_since() != kNever && dialer.last_end() == End::refused;
}

std::vector<int> Relinker::ended(Time now) const {
  std::vector<int> ranks;
  for (const auto& [rank, sought] : sought_) {
    if (is_refused_by(rank) && now - sought.dialer.failing_since() >= kRelinkPatience) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> Relinker::silent(Time silence, Time now) const {
  std::vector<int> ranks;
  for (const auto& [rank, sought] : sought_) {
    if (now - sought.since >= silence + kRelinkPatience) ranks.push_back(rank);
  }
  return ranks;
}

void Relinker::close() {
  for (auto& [rank, sought] : sought_) sought.dialer.hang_up();
  sought_.clear();
}

Relinker::Entry Relinker::find(ConnectionId connection) {
  return std::find_if(sought_.begin(), sought_.end(),
                      [&](const auto& entry) { return entry.second.dialer.connection() == connection; });
}

void Relinker::connected(ConnectionId connection, Time now) {
  if (const auto found = find(connection); found != sought_.end()) found->second.dialer.connected(now);
}

std::optional<Relinker::Made> Relinker::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  const auto found = find(connection);
  if (found == sought_.end()) return std::nullopt;
  const auto rest = found->second.dialer.received(bytes, now);
  if (found->second.dialer.state() != Dialer::State::admitted) return std::nullopt;
  const Made made{found->first, connection, rest};
  sought_.erase(found);
  return made;
}

void Relinker::closed(ConnectionId connection, End end, std::string_view words, Time now) {
  if (const auto found = find(connection); found != sought_.end()) found->second.dialer.closed(end, words, now);
}

void Relinker::tick(Time now) {
  for (auto& [rank, sought] : sought_) sought.dialer.tick(now);
}

Time Relinker::next_tick() const {
  Time next = kNever;
  for (const auto& [rank, sought] : sought_) next = std::min(next, sought.dialer.next_tick());
  return next;
}

}  // namespace tutti::rendezvous
