#include "tutti/train/local_updates.h"

#include <string>

#include "train/local_updater.h"
#include "train/words.h"

namespace tutti::train {

Replicas make_replicas(Communicator& communicator, int replica_ranks) {
  if (replica_ranks < 1 || communicator.size() % replica_ranks != 0) {
    refuse_call("replicas of " + std::to_string(replica_ranks) + " ranks each cannot be made of " +
                std::to_string(communicator.size()) + " ranks; give a divisor of that");
  }
  if (replica_ranks == 1) return {communicator.self(), communicator.duplicate()};
  const int rank = communicator.rank();
  Communicator inside = communicator.split(rank / replica_ranks);
  return {std::move(inside), communicator.split(rank % replica_ranks)};
}

LocalUpdates::LocalUpdates(Replicas& replicas, Strategy& strategy, const LocalUpdatesOptions& options)
    : updater_(std::make_unique<LocalUpdater>(replicas, strategy, options)) {}
LocalUpdates::LocalUpdates(LocalUpdates&&) noexcept = default;
LocalUpdates& LocalUpdates::operator=(LocalUpdates&&) noexcept = default;
LocalUpdates::~LocalUpdates() = default;

LocalStep LocalUpdates::step(std::optional<double> learning_rate) { return updater_->step(learning_rate); }
void LocalUpdates::finish() { updater_->finish(); }
void LocalUpdates::verify() { updater_->verify(); }
std::int64_t LocalUpdates::steps() const { return updater_->steps(); }
std::int64_t LocalUpdates::exchanges() const { return updater_->exchanges(); }
const std::vector<std::int64_t>& LocalUpdates::contributions() const { return updater_->contributions(); }
Strategy& LocalUpdates::strategy() const { return updater_->strategy(); }
const LocalUpdatesOptions& LocalUpdates::options() const { return updater_->options(); }
Counters LocalUpdates::counters() const { return updater_->counters(); }
Report LocalUpdates::report() const { return updater_->report(); }

}  // namespace tutti::train
