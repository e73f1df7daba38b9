#include "rendezvous/relinker.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

// Word of how a rank has ended should come first.
constexpr Time kRelinkPatience = std::chrono::seconds(3);

}  // namespace

Relinker::Relinker(Network& network, int rank, int size, Options options, std::function<bool(int rank)> is_gone)
    : network_(network),
      rank_(rank),
      options_(std::move(options)),
      is_gone_(std::move(is_gone)),
      gate_(network, kStrangers) {
  Gate::Terms terms{options_.token, options_.job, static_cast<std::uint32_t>(rank_), {}};
  terms.judge = [this, size](const Hello& hello) -> std::optional<Refusal> {
    if (hello.from >= static_cast<std::uint32_t>(size)) return Refusal::no_such_rank;
    const int from = static_cast<int>(hello.from);
    const bool due = hello.purpose == Purpose::control && from != rank_ && !is_gone_(from);
    return due ? std::nullopt : std::optional(Refusal::unexpected);
  };
  gate_.open(std::move(terms));
}

void Relinker::seek(const std::vector<int>& ranks, Time now) {
  for (const int rank : ranks) {
    if (sought_.contains(rank)) continue;
    Hello hello;
    hello.purpose = Purpose::control;
    hello.from = static_cast<std::uint32_t>(rank_);
    hello.to = static_cast<std::uint32_t>(rank);
    hello.job = options_.job;
    Dialer dialer(network_, options_.endpoint_of(rank), options_.token, hello);
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
  gate_.close();
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
  if (gate_.holds(connection)) {
    const auto hello = gate_.received(connection, bytes);
    return hello ? std::optional(Made{static_cast<int>(hello->from), connection, {}}) : std::nullopt;
  }
  const auto found = find(connection);
  if (found == sought_.end()) {
    network_.drop(connection);  // nobody of this job
    return std::nullopt;
  }
  const auto rest = found->second.dialer.received(bytes, now);
  if (found->second.dialer.state() != Dialer::State::admitted) return std::nullopt;
  const Made made{found->first, connection, rest};
  sought_.erase(found);
  return made;
}

void Relinker::closed(ConnectionId connection, End end, std::string_view words, Time now) {
  gate_.closed(connection);
  if (const auto found = find(connection); found != sought_.end()) found->second.dialer.closed(end, words, now);
}

void Relinker::tick(Time now) {
  gate_.tick(now);
  for (auto& [rank, sought] : sought_) sought.dialer.tick(now);
}

Time Relinker::next_tick() const {
  Time next = gate_.next_tick();
  for (const auto& [rank, sought] : sought_) next = std::min(next, sought.dialer.next_tick());
  return next;
}

}  // namespace tutti::rendezvous
