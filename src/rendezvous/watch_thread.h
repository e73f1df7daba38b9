// The control plane of a process: a Watch over the real network on a thread of its own, and what its groups see of it.
//
// The thread alone touches the watch; others leave it orders, which it carries out one after the other. An error of the
// thread itself is a failure of all groups, as far as this rank is concerned, and the others are told that it gave up.
// It also makes the connections that data goes over, for whoever attaches to it as Links.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/control.h"
#include "base/links.h"
#include "base/log.h"
#include "base/thread.h"
#include "rendezvous/epoll_network.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {

class GroupControl;

class WatchThread final : public Links, public ControlPlane, public std::enable_shared_from_this<WatchThread> {
 public:
  // Runs on `thread`. `gate`: the watch's. `names`: what the ranks are called in the log, where suspicions are told.
  WatchThread(std::unique_ptr<EpollNetwork> network, const Watch::Options& options, std::optional<Gate> gate,
              std::unique_ptr<StandbyThread> thread, Log log, std::vector<std::string> names);
  // Says goodbye to all ranks, after whatever the orders left to be said.
  ~WatchThread() override;

  // What it returns keeps the thread going.
  std::unique_ptr<Control> enter(GroupNumber group, std::vector<int> members) override;

  void want(int rank, std::uint32_t channel) override;
  void attach(Links::Hooks hooks) override;
  void arm() override;

  // For the group's control, on any thread.
  using Order = std::function<void(Watch&)>;
  void leave_order(Order order);
  // It has something to publish that is no news.
  void ring() const;
  // After it returns the thread has no more to do with the control, and the group is left.
  void dismiss(const GroupControl& control);

 private:
  void run();
  void watch_until_end();
  void say_farewell();
  // The thread cannot go on.
  void give_up(const std::string& why);
  void attended(int descriptor);
  void obey();
  void publish(const std::vector<GroupNumber>& attached);
  std::vector<GroupNumber> newly_attached();
  void tell_suspicions();
  void hand_over_links();
  void leave(GroupNumber group, const std::vector<int>& members);
  std::vector<Statement> statements(GroupNumber group);
  Time quiet_for(int rank);

  const int rank_;
  const Time silence_;
  const Log log_;
  const std::vector<std::string> names_;  // by rank
  std::unique_ptr<EpollNetwork> network_;
  FileDescriptor bell_;  // an eventfd: orders, hooks or the end
  Watch watch_;

  std::mutex orders_mutex_;
  std::vector<Order> orders_;
  std::atomic<bool> ending_{false};

  std::mutex groups_mutex_;  // held while the thread uses a control, its hooks included
  std::map<GroupNumber, GroupControl*> groups_;
  std::optional<Failure> own_failure_;  // once the thread has given up

  std::mutex links_mutex_;  // held while hooks are used
  Links::Hooks link_hooks_;
  std::vector<Links::Made> linked_;  // before anybody has attached
  std::atomic<int> readable_{-1};    // the hooks'

  std::unique_ptr<StandbyThread> thread_;
};

}  // namespace tutti::rendezvous
