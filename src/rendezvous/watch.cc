#include "rendezvous/watch.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

// The smaller of two limits, of which 0 is none.
Time first_of(Time a, Time b) { return a == Time(0) || b == Time(0) ? std::max(a, b) : std::min(a, b); }

Loss loss_of(End end) {
  return end == End::orderly ? Loss::ended : end == End::unreachable ? Loss::unreachable : Loss::reset;
}

News loss_news(int rank, Loss loss) {
  News news;
  news.kind = News::Kind::loss;
  news.rank = rank;
  news.loss = loss;
  return news;
}

News abort_news(GroupNumber group, int blamed, ErrorCode cause, bool left) {
  News news;
  news.kind = News::Kind::abort;
  news.group = group;
  news.rank = blamed;
  news.cause = cause;
  news.left = left;
  return news;
}

}  // namespace

Bytes last_words(int rank, const Failure& failure) {
  News news = failure.died ? loss_news(failure.rank, failure.loss)
                           : abort_news(kEverybody, failure.blamed, failure.cause, failure.left);
  news.origin = failure.died ? rank : failure.rank;
  news.number = 1;
  return frame_of(news);
}

bool Watch::Group::holds(int rank) const { return std::binary_search(members.begin(), members.end(), rank); }

Watch::Watch(Network& network, Options options, Time now, std::optional<Gate> gate)
    : network_(network),
      options_(std::move(options)),
      first_limit_(first_of(options_.suspicion, options_.silence)),
      beat_every_(first_of(kBeatEvery, first_limit_ / 4)),
      next_beat_(now),
      ticked_(now) {
  for (const auto& [rank, connection] : options_.links) link(rank, connection, now);
  if (first_limit_ > Time(0)) next_judgement_ = now;
  if (!options_.linking) return;
  relinker_.emplace(network_, options_.rank, *options_.linking);
  linker_.emplace(network_, options_.rank, *options_.linking, [this](int rank) { return is_gone(rank); });
  gate_.emplace(gate ? std::move(*gate) : Gate(network_, kStrangers + static_cast<std::size_t>(options_.size)));
  open_gate();
}

void Watch::enter(GroupNumber number, std::vector<int> members) {
  std::sort(members.begin(), members.end());
  const Group& group = groups_[number] = {std::move(members), {}};
  known_.follow(number);
  for (const News& news : known_.in_order()) {
    if (news.kind == News::Kind::loss && group.holds(news.rank)) {
      fail(number, {news.rank, -1, true, news.loss});
    } else if (news.kind == News::Kind::goodbye && group.holds(news.rank)) {
      changes_.push_back({number, news.rank});
    } else if (news.kind >= News::Kind::abort && news.group == number) {
      act_on(news);
    }
  }
}

void Watch::leave(GroupNumber number) {
  News news;
  news.kind = News::Kind::leave;
  news.group = number;
  tell(news);
  groups_.erase(number);
  known_.unfollow(number);
}

void Watch::goodbye() {
  tell_goodbye(options_.rank);
  while (!neighbours_.empty()) hang_up(neighbours_.begin()->first);
  next_beat_ = next_judgement_ = kNever;
  if (!gate_) return;
  gate_->close();
  relinker_->close();
  linker_->close();
}

std::optional<Failure> Watch::failure(GroupNumber number) const {
  const auto group = groups_.find(number);
  return group == groups_.end() ? std::nullopt : group->second.failure;
}

bool Watch::any_group_lives() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& entry) { return !entry.second.failure; });
}

void Watch::abort(GroupNumber group, int culprit, ErrorCode cause) {
  if (!groups_.contains(group) || failure(group)) return;
  // Its goodbye may reach others later than this.
  tell(abort_news(group, culprit, cause, culprit >= 0 && departed(group, culprit)));
}

void Watch::tell_goodbye(int rank) {
  News news;
  news.kind = News::Kind::goodbye;
  news.rank = rank;
  tell(news);
}

void Watch::lose(int rank, Loss loss) { tell(loss_news(rank, loss)); }

void Watch::announce(GroupNumber group, std::uint32_t channel, const Statement& statement) {
  // Everybody knows it already: 0 is what they take a rank to have said that said nothing.
  if (statement.sequence == 0 || known_.announced(group, channel, options_.rank) == statement) return;
  News news;
  news.kind = News::Kind::statement;
  news.group = group;
  news.channel = channel;
  news.statement = statement;
  tell(news);
}

void Watch::say(GroupNumber group) {
  // After any other failure nobody asks who called what.
  const auto failed = failure(group);
  if (!say_ || !failed || failed->died || failed->cause != ErrorCode::mismatch) return;
  std::uint32_t channel = 0;
  for (const Statement& statement : say_(group)) announce(group, channel++, statement);
}

void Watch::tell(News news) {
  news.origin = options_.rank;
  news.number = told_ + 1;
  if (!known_.is_new(news)) return;
  ++told_;
  learn(news, 0);
}

void Watch::learn(const News& news, ConnectionId from) {
  known_.add(news);
  pass_on(news, from);
  act_on(news);
}

void Watch::pass_on(const News& news, ConnectionId from) {
  const Bytes frame = frame_of(news);
  for (const auto& [connection, neighbour] : neighbours_) {
    if (connection != from && !known_.departed(neighbour.rank)) network_.send(connection, frame);
  }
}

void Watch::act_on(const News& news) {
  const auto group = groups_.find(news.group);
  switch (news.kind) {
    case News::Kind::loss: return act_on_loss(news.rank, news.loss);
    case News::Kind::goodbye:
      if (linker_) linker_->forget(news.rank);
      for (const auto& [number, entered] : groups_) {
        if (entered.holds(news.rank)) changes_.push_back({number, news.rank});
      }
      return;
    case News::Kind::abort:
      if (group != groups_.end()) fail(news.group, {news.origin, news.rank, false, Loss::ended, news.cause, news.left});
      return;
    case News::Kind::leave:
    case News::Kind::statement:
      if (group != groups_.end() && news.origin != options_.rank) changes_.push_back({news.group, news.origin});
      return;
  }
}

void Watch::act_on_loss(int rank, Loss loss) {
  // It has been told, and nothing more is sent to it; if it wakes up it finds its links ended.
  std::vector<ConnectionId> links;
  for (const auto& [connection, neighbour] : neighbours_) {
    if (neighbour.rank == rank) links.push_back(connection);
  }
  for (const ConnectionId connection : links) hang_up(connection);
  if (linker_) linker_->forget(rank);
  for (const auto& [number, group] : groups_) {
    if (group.holds(rank)) fail(number, {rank, -1, true, loss});
  }
}

void Watch::fail(GroupNumber number, const Failure& failure) {
  Group& group = groups_.at(number);
  if (group.failure) return;
  group.failure = failure;
  changes_.push_back({number, -1});
  say(number);
}

void Watch::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  const auto found = neighbours_.find(connection);
  if (found == neighbours_.end()) return received_elsewhere(connection, bytes, now);
  found->second.knows = true;
  hear(found->second, now);
  found->second.frames.add(bytes);
  // What it says may be that it is lost itself, which ends its link.
  for (auto from = found; from != neighbours_.end(); from = neighbours_.find(connection)) {
    const auto frame = from->second.frames.next();
    if (frame && take(connection, *frame)) continue;
    if (!frame && !from->second.frames.broken()) return;
    closed(connection, End::broken, "it does not speak as a control connection does", now);
    network_.drop(connection);
    return;
  }
}

bool Watch::take(ConnectionId from, const Frame& frame) {
  if (is_beat(frame)) return true;
  const auto news = decode_news(frame, options_.size);
  // Nobody else knows news of this rank that it has not told.
  if (!news || (news->origin == options_.rank && news->number > told_)) return false;
  if (known_.is_new(*news)) learn(*news, from);
  return true;
}

void Watch::closed(ConnectionId connection, End end, std::string_view words, Time now) {
  const auto found = neighbours_.find(connection);
  if (found == neighbours_.end()) return closed_elsewhere(connection, end, words, now);
  const int rank = found->second.rank;
  const bool knows = found->second.knows;
  neighbours_.erase(found);
  // Whoever is lost itself finds its links ended, and accuses nobody.
  if (knows && !known_.departed(rank) && !known_.lost(options_.rank)) lose(rank, loss_of(end));
}

}  // namespace tutti::rendezvous
