#include "rendezvous/group_control.h"

#include <algorithm>

#include "rendezvous/watch_thread.h"

namespace tutti::rendezvous {

GroupControl::GroupControl(std::shared_ptr<WatchThread> thread, GroupNumber number, std::vector<int> members)
    : thread_(std::move(thread)),
      number_(number),
      members_(std::move(members)),
      left_at_(members_.size()),
      announced_(members_.size()) {
  for (const int rank : members_) places_.emplace_back(rank, static_cast<int>(places_.size()));
  std::sort(places_.begin(), places_.end());
}

GroupControl::~GroupControl() { thread_->dismiss(*this); }

int GroupControl::place_of(int rank) const {
  const auto found = std::lower_bound(places_.begin(), places_.end(), std::pair(rank, -1));
  return found == places_.end() || found->first != rank ? -1 : found->second;
}

std::optional<Failure> GroupControl::failure() const {
  return failed_.load(std::memory_order_acquire) ? std::optional(failure_) : std::nullopt;
}

std::uint64_t GroupControl::left_at(int peer) const {
  return left_at_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
}

void GroupControl::abort(int culprit, ErrorCode cause) {
  thread_->leave_order(
      [group = number_, culprit = rank_of(culprit), cause](Watch& watch) { watch.abort(group, culprit, cause); });
}

void GroupControl::lose(int peer, Loss loss) {
  thread_->leave_order([rank = rank_of(peer), loss](Watch& watch) { watch.lose(rank, loss); });
}

void GroupControl::announce(std::uint32_t channel, const Statement& statement) {
  thread_->leave_order(
      [group = number_, channel, statement](Watch& watch) { watch.announce(group, channel, statement); });
}

Statement GroupControl::announced(std::uint32_t channel, int peer) const {
  const std::lock_guard lock(mutex_);
  const auto& statements = announced_[static_cast<std::size_t>(peer)];
  return channel < statements.size() ? statements[channel] : Statement{};
}

void GroupControl::attach(Hooks hooks) {
  {
    const std::lock_guard lock(hooks_mutex_);
    hooks_ = std::move(hooks);
  }
  newly_attached_.store(true);
  thread_->ring();
}

void GroupControl::publish_failure(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (failed_.load()) return;
  failure.rank = place_of(failure.rank);
  failure.blamed = place_of(failure.blamed);
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_release);
}

void GroupControl::publish_news_of(int rank, const Watch& watch) {
  const int place = place_of(rank);
  if (place < 0) return;
  const auto peer = static_cast<std::size_t>(place);
  {
    const std::lock_guard lock(mutex_);
    announced_[peer] = watch.announced(number_, rank);
  }
  left_at_[peer].store(watch.left_at(number_, rank), std::memory_order_release);
}

void GroupControl::wake() {
  const std::lock_guard lock(hooks_mutex_);
  if (hooks_.wake) hooks_.wake();
}

std::vector<Statement> GroupControl::statements() {
  const std::lock_guard lock(hooks_mutex_);
  std::vector<Statement> said;
  for (std::uint32_t channel = 0; hooks_.say && channel < hooks_.channels; ++channel)
    said.push_back(hooks_.say(channel));
  return said;
}

Time GroupControl::quiet_for(int rank) {
  const int peer = place_of(rank);
  const std::lock_guard lock(hooks_mutex_);
  return peer >= 0 && hooks_.quiet_for ? hooks_.quiet_for(peer) : kNever;
}

}  // namespace tutti::rendezvous
