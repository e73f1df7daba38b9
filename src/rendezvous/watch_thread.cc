#include "rendezvous/watch_thread.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <set>

#include "base/rank_list.h"
#include "base/system_error.h"
#include "rendezvous/group_control.h"
#include "rendezvous/roster.h"

namespace tutti::rendezvous {
namespace {

constexpr Time kFarewellTime = std::chrono::milliseconds(200);

}  // namespace

WatchThread::WatchThread(std::unique_ptr<EpollNetwork> network, const Watch::Options& options, std::optional<Gate> gate,
                         std::unique_ptr<StandbyThread> thread, Log log, std::vector<std::string> names)
    : rank_(options.rank),
      silence_(options.silence),
      log_(log),
      names_(std::move(names)),
      network_(std::move(network)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watch_(*network_, options, EpollNetwork::now(), std::move(gate)),
      thread_(std::move(thread)) {
  if (!bell_.valid()) throw_errno("eventfd");
  network_->on_attended([this](int descriptor) { attended(descriptor); });
  network_->attend(bell_.get(), false);
  watch_.set_say([this](GroupNumber group) { return statements(group); });
  watch_.set_quiet_for([this](int rank) { return quiet_for(rank); });
  watch_.set_make_room([this] { return network_->drop_closing(); });
  thread_->run([this] { run(); });
}

WatchThread::~WatchThread() {
  ending_.store(true);
  ring();
  thread_.reset();
}

std::unique_ptr<Control> WatchThread::enter(GroupNumber group, std::vector<int> members) {
  auto control = std::make_unique<GroupControl>(shared_from_this(), group, std::move(members));
  {
    const std::lock_guard lock(groups_mutex_);
    groups_[group] = control.get();
    if (own_failure_) control->publish_failure(*own_failure_);
  }
  leave_order([group, entered = control->members()](Watch& watch) { watch.enter(group, entered); });
  return control;
}

void WatchThread::dismiss(const GroupControl& control) {
  bool last = false;
  {
    const std::lock_guard lock(groups_mutex_);
    groups_.erase(control.number());
    last = groups_.empty();
  }
  // Groups are made of groups: after the last one the process leaves, and its goodbye says it of all.
  if (!last)
    leave_order([this, group = control.number(), members = control.members()](Watch&) { leave(group, members); });
}

void WatchThread::want(int rank, std::uint32_t channel) {
  leave_order([rank, channel](Watch& watch) { watch.want_link(rank, channel, EpollNetwork::now()); });
}

void WatchThread::attach(Links::Hooks hooks) {
  const std::lock_guard lock(links_mutex_);
  if (const int before = readable_.exchange(-1); before >= 0) network_->ignore(before);
  link_hooks_ = std::move(hooks);
  if (link_hooks_.readable >= 0) {
    network_->attend(link_hooks_.readable, true);
    readable_.store(link_hooks_.readable);
  }
  for (Links::Made& made : std::exchange(linked_, {})) {
    if (link_hooks_.linked) link_hooks_.linked(std::move(made));
  }
}

void WatchThread::arm() {
  if (const int readable = readable_.load(); readable >= 0) network_->rearm(readable);
}

void WatchThread::leave_order(Order order) {
  {
    const std::lock_guard lock(orders_mutex_);
    orders_.push_back(std::move(order));
  }
  ring();
}

void WatchThread::ring() const {
  const std::uint64_t one = 1;
  if (::write(bell_.get(), &one, sizeof one) < 0) return;  // only a full counter refuses, and that is readable, too
}

void WatchThread::attended(int descriptor) {
  if (descriptor == bell_.get()) {
    std::uint64_t rings = 0;
    if (::read(bell_.get(), &rings, sizeof rings) < 0) return;  // somebody else's turn has emptied it
    return;
  }
  const std::lock_guard lock(links_mutex_);
  if (descriptor == link_hooks_.readable) link_hooks_.happened();
}

void WatchThread::run() {
  try {
    watch_until_end();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void WatchThread::watch_until_end() {
  while (!ending_.load()) {
    network_->poll(watch_, kNever);
    if (network_->take_exhausted()) watch_.make_room();
    for (const ConnectionId connection : watch_.take_new_links()) network_->make_control(connection, silence_);
    // A group attaches after it has left the order to enter it: whoever is seen attached here is entered below.
    const std::vector<GroupNumber> attached = newly_attached();
    obey();
    publish(attached);
    tell_suspicions();
    hand_over_links();
  }
  obey();
  say_farewell();
}

void WatchThread::say_farewell() {
  watch_.goodbye();
  const Time until = EpollNetwork::now() + kFarewellTime;
  // A socket that is closed while something lies unread in it resets, which may overtake the goodbye.
  while (!network_->idle() && EpollNetwork::now() < until) network_->poll(watch_, until);
}

void WatchThread::give_up(const std::string& why) {
  std::vector<GroupNumber> groups;
  {
    const std::lock_guard lock(groups_mutex_);
    own_failure_ = {rank_, -1, false, Loss::ended, ErrorCode::system};
    own_failure_->words = "this rank can no longer tell who is alive, because its control plane has failed: " + why;
    for (const auto& [group, control] : groups_) {
      control->publish_failure(*own_failure_);
      groups.push_back(group);
    }
  }
  // Whatever ended it may end these, too.
  try {
    obey();  // one of them may not have been entered yet
    for (const GroupNumber group : groups) watch_.abort(group, -1, ErrorCode::system);
    say_farewell();
  } catch (const std::exception&) {
    network_->drop_connections();  // the others see at once that this rank is lost
  }
  const std::lock_guard lock(groups_mutex_);
  for (const auto& [group, control] : groups_) {
    try {
      control->wake();
    } catch (const std::exception&) {
      // Whoever waits finds the failure when it looks the next time.
    }
  }
}

void WatchThread::obey() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(orders_mutex_);
    orders.swap(orders_);
  }
  for (const Order& order : orders) order(watch_);
}

std::vector<GroupNumber> WatchThread::newly_attached() {
  std::vector<GroupNumber> attached;
  const std::lock_guard lock(groups_mutex_);
  for (const auto& [group, control] : groups_) {
    if (control->take_newly_attached()) attached.push_back(group);
  }
  return attached;
}

void WatchThread::publish(const std::vector<GroupNumber>& attached) {
  // When it was given up there was nobody yet to ask what this rank is in.
  for (const GroupNumber group : attached) watch_.say(group);
  std::set<GroupNumber> wake(attached.begin(), attached.end());
  std::vector<Watch::Change> changes = watch_.take_changes();
  // Failures first: who finds that a peer has left, and then no failure, may believe that it left in good order.
  std::stable_partition(changes.begin(), changes.end(), [](const Watch::Change& change) { return change.rank < 0; });
  const std::lock_guard lock(groups_mutex_);
  for (const Watch::Change& change : changes) {
    const auto found = groups_.find(change.group);
    if (found == groups_.end()) continue;
    if (change.rank < 0) {
      found->second->publish_failure(*watch_.failure(change.group));
    } else {
      found->second->publish_news_of(change.rank, watch_);
    }
    wake.insert(change.group);
  }
  for (const GroupNumber group : wake) {
    if (const auto found = groups_.find(group); found != groups_.end()) found->second->wake();
  }
}

// One sentence for all that are silent: whoever is cut off itself suspects everybody.
void WatchThread::tell_suspicions() {
  std::vector<int> silent;
  Time least = kNever;
  for (const Watch::Suspicion& news : watch_.take_suspicions()) {
    const std::string& name = names_[static_cast<std::size_t>(news.rank)];
    if (news.heard_again) {
      log_.warn(name + " is heard again after " + in_words(news.silent) + " of silence");
    } else {
      silent.push_back(news.rank);
      least = std::min(least, news.silent);
    }
  }
  if (silent.empty()) return;
  const bool one = silent.size() == 1;
  log_.warn((one ? names_[static_cast<std::size_t>(silent[0])] + " has" : rank_names(silent) + " have") +
            " been silent for " + in_words(least) + ": stopped, on a host that is down, or cut off" +
            (silence_ > Time(0) ? "; an error follows at " + in_words(silence_) + " (TUTTI_SILENCE_MS)" : ""));
}

void WatchThread::hand_over_links() {
  for (const std::string& trouble : watch_.take_troubles()) log_.warn(trouble);
  if (!watch_.own_trouble().empty()) throw Error(ErrorCode::system, watch_.own_trouble());
  const std::lock_guard lock(links_mutex_);
  for (Linker::Made& made : watch_.take_data_links()) {
    const auto [rank, channel] = made.key;
    Links::Made link{rank, channel, network_->release(made.connection), std::move(made.first), watch_.told()};
    if (link_hooks_.linked) {
      link_hooks_.linked(std::move(link));
    } else {
      linked_.push_back(std::move(link));
    }
  }
  for (const auto& [rank, channel] : watch_.take_absent_links()) {
    if (link_hooks_.absent) link_hooks_.absent(rank, channel);
  }
  if (link_hooks_.look) link_hooks_.look();
}

// What is told of it on the connections goes before the news: who hears these looks for that on those it knows.
void WatchThread::leave(GroupNumber group, const std::vector<int>& members) {
  std::vector<Links::Member> peers;
  for (const int rank : members) {
    if (rank != rank_) peers.push_back({rank, watch_.left_at(group, rank)});
  }
  {
    const std::lock_guard lock(links_mutex_);
    if (link_hooks_.leaves) link_hooks_.leaves(group, peers);
  }
  watch_.leave(group);
}

std::vector<Statement> WatchThread::statements(GroupNumber group) {
  const std::lock_guard lock(groups_mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::vector<Statement>{} : found->second->statements();
}

// Data that came in any group shows that its sender lives.
Time WatchThread::quiet_for(int rank) {
  Time least = kNever;
  const std::lock_guard lock(groups_mutex_);
  for (const auto& [group, control] : groups_) least = std::min(least, control->quiet_for(rank));
  return least;
}

}  // namespace tutti::rendezvous
