// What one group sees of the control plane of its process, in the group's own numbering of ranks.
//
// Any thread may ask; the thread of the watch publishes. What the data plane attaches is used under a lock of its own,
// so attach({}) returns only when the thread is out of it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/control.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {

class WatchThread;

class GroupControl final : public Control {
 public:
  GroupControl(std::shared_ptr<WatchThread> thread, GroupNumber number, std::vector<int> members);
  ~GroupControl() override;

  GroupNumber number() const { return number_; }
  const std::vector<int>& members() const { return members_; }

  std::optional<Failure> failure() const override;
  bool departed(int peer) const override { return left_at(peer) != 0; }
  std::uint64_t left_at(int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void lose(int peer, Loss loss) override;
  void announce(std::uint32_t channel, const Statement& statement) override;
  Statement announced(std::uint32_t channel, int peer) const override;
  void attach(Hooks hooks) override;

  // On the thread of the watch from here on; ranks are the watch's.
  // Whether somebody has attached since the last call, to whom all that was before is news.
  bool take_newly_attached() { return newly_attached_.exchange(false); }
  void publish_failure(Failure failure);
  void publish_news_of(int rank, const Watch& watch);
  void wake();
  std::vector<Statement> statements();
  Time quiet_for(int rank);

 private:
  // The group's number of a rank of the watch; -1 where it holds none such.
  int place_of(int rank) const;
  int rank_of(int peer) const { return peer < 0 ? -1 : members_[static_cast<std::size_t>(peer)]; }

  const std::shared_ptr<WatchThread> thread_;
  const GroupNumber number_;
  const std::vector<int> members_;                   // the watch's ranks, by the group's
  std::vector<std::pair<int, int>> places_;          // the group's, sorted by the watch's
  std::vector<std::atomic<std::uint64_t>> left_at_;  // by the group's ranks, as what follows

  mutable std::mutex mutex_;                       // guards what follows, and is never held while hooks run
  Failure failure_;                                // written once, before the flag
  std::vector<std::vector<Statement>> announced_;  // [peer][channel]
  std::atomic<bool> failed_{false};

  std::mutex hooks_mutex_;  // held while hooks are used
  Hooks hooks_;
  std::atomic<bool> newly_attached_{false};
};

}  // namespace tutti::rendezvous
