// The control plane of a group: a Watch over the real network on a thread of its own.
//
// The thread alone touches the watch; other threads see what it has published and leave it commands. What the data
// plane lends is used under a lock of its own, so lend({}) returns only when the thread is out of it. An error of the
// thread itself is a failure of the group, as far as this rank is concerned, and the others are told that it gave up.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/control.h"
#include "base/log.h"
#include "base/thread.h"
#include "rendezvous/epoll_network.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {

class WatchThread final : public Control {
 public:
  // Runs on `thread`. `names`: what the ranks are called in the log, where suspicions are told.
  WatchThread(std::unique_ptr<EpollNetwork> network, const Watch::Options& options,
              std::unique_ptr<StandbyThread> thread, Log log, std::vector<std::string> names);
  // Says goodbye to all ranks, after whatever abort() and announce() left to be said.
  ~WatchThread() override;

  std::optional<Failure> failure() const override;
  bool departed(int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void lose(int peer, Loss loss) override;
  void announce(std::uint32_t channel, const Statement& statement) override;
  Statement announced(std::uint32_t channel, int peer) const override;
  void lend(Lent lent) override;
  void arm() override;

 private:
  struct Command {
    enum class Kind : unsigned char { announce, abort, lose } kind = Kind::announce;
    int rank = -1;
    ErrorCode cause = ErrorCode::aborted;
    Loss loss = Loss::ended;
    std::uint32_t channel = 0;
    Statement statement;
  };

  void run();
  void watch_until_end();
  void say_farewell();
  // The thread cannot go on.
  void give_up(const std::string& why);
  void attended(int descriptor);
  void obey();
  void publish();
  void tell_suspicions();
  void wake();
  void leave(Command command);
  void ring() const;
  std::vector<Statement> statements();
  Time quiet_for(int peer);

  const int rank_;
  const Time silence_;
  const Log log_;
  const std::vector<std::string> names_;  // by rank
  std::unique_ptr<EpollNetwork> network_;
  FileDescriptor bell_;  // an eventfd: commands, lent things or the end
  Watch watch_;

  mutable std::mutex mutex_;  // guards what follows, and is never held while lent functions run
  std::vector<Command> commands_;
  Failure failure_;
  std::vector<std::vector<Statement>> announced_;  // [peer][channel]

  std::atomic<bool> failed_{false};
  std::vector<std::atomic<bool>> departed_;
  std::atomic<bool> ending_{false};

  std::mutex lent_mutex_;  // held while lent things are used
  Lent lent_;
  std::atomic<int> readable_{-1};
  std::atomic<bool> newly_lent_{false};

  std::unique_ptr<StandbyThread> thread_;
};

}  // namespace tutti::rendezvous
