#include "rendezvous/watch_thread.h"

#include <sys/eventfd.h>

#include "base/system_error.h"

namespace tutti::rendezvous {
namespace {

constexpr Time kFarewellTime = std::chrono::milliseconds(200);

}  // namespace

WatchThread::WatchThread(std::unique_ptr<EpollNetwork> network, const Watch::Options& options,
                         std::unique_ptr<StandbyThread> thread)
    : network_(std::move(network)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watch_(*network_, options, EpollNetwork::now()),
      announced_(static_cast<std::size_t>(options.size)),
      departed_(static_cast<std::size_t>(options.size)),
      thread_(std::move(thread)) {
  if (!bell_.valid()) throw_errno("eventfd");
  network_->on_attended([this](int descriptor) { attended(descriptor); });
  network_->attend(bell_.get(), false);
  watch_.set_say([this] { return statements(); });
  thread_->run([this] { run(); });
}

WatchThread::~WatchThread() {
  ending_.store(true);
  ring();
  thread_.reset();
}

void WatchThread::ring() const {
  const std::uint64_t one = 1;
  if (::write(bell_.get(), &one, sizeof one) < 0) return;  // only a full counter refuses, and that is readable, too
}

void WatchThread::attended(int descriptor) {
  if (descriptor == bell_.get()) {
    std::uint64_t rings = 0;
    if (::read(bell_.get(), &rings, sizeof rings) < 0) return;
  } else {
    const std::lock_guard lock(lent_mutex_);
    if (descriptor == lent_.readable && lent_.wake) lent_.wake();
  }
}

void WatchThread::run() {
  while (!ending_.load()) {
    network_->poll(watch_, kNever);
    obey();
    publish();
  }
  obey();
  watch_.goodbye();
  const Time until = EpollNetwork::now() + kFarewellTime;
  // A socket that is closed while something lies unread in it resets, which may overtake the goodbye.
  while (!network_->idle() && EpollNetwork::now() < until) network_->poll(watch_, until);
}

void WatchThread::obey() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    if (command.is_abort) {
      watch_.abort(command.culprit, command.cause);
    } else {
      watch_.announce(command.channel, command.statement);
    }
  }
}

void WatchThread::publish() {
  const std::vector<int> changed = watch_.take_changed();
  const bool newly_lent = newly_lent_.exchange(false);
  // When somebody gave up there was nobody yet to ask what this rank is in.
  if (newly_lent && watch_.failure()) watch_.say();
  if (changed.empty() && !newly_lent && (failed_.load() || !watch_.failure())) return;
  {
    const std::lock_guard lock(mutex_);
    // The failure first: who finds that a peer has left, and then no failure, may believe that it left in good order.
    if (watch_.failure() && !failed_.load()) {
      failure_ = *watch_.failure();
      failed_.store(true, std::memory_order_release);
    }
    for (const int peer : changed) {
      announced_[static_cast<std::size_t>(peer)] = watch_.announced(peer);
      departed_[static_cast<std::size_t>(peer)].store(watch_.departed(peer), std::memory_order_release);
    }
  }
  const std::lock_guard lock(lent_mutex_);
  if (lent_.wake) lent_.wake();
}

std::vector<Statement> WatchThread::statements() {
  const std::lock_guard lock(lent_mutex_);
  std::vector<Statement> said;
  for (std::uint32_t channel = 0; lent_.say && channel < lent_.channels; ++channel) said.push_back(lent_.say(channel));
  return said;
}

std::optional<Failure> WatchThread::failure() const {
  // Written once, before the flag.
  return failed_.load(std::memory_order_acquire) ? std::optional(failure_) : std::nullopt;
}

bool WatchThread::departed(int peer) const {
  return departed_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
}

void WatchThread::leave(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(command);
  }
  ring();
}

void WatchThread::abort(int culprit, ErrorCode cause) {
  Command command;
  command.is_abort = true;
  command.culprit = culprit;
  command.cause = cause;
  leave(command);
}

void WatchThread::announce(std::uint32_t channel, const Statement& statement) {
  Command command;
  command.channel = channel;
  command.statement = statement;
  leave(command);
}

Statement WatchThread::announced(std::uint32_t channel, int peer) const {
  const std::lock_guard lock(mutex_);
  const auto& statements = announced_[static_cast<std::size_t>(peer)];
  return channel < statements.size() ? statements[channel] : Statement{};
}

void WatchThread::lend(Lent lent) {
  {
    const std::lock_guard lock(lent_mutex_);
    const int before = readable_.exchange(-1);
    if (before >= 0) network_->ignore(before);
    lent_ = std::move(lent);
    if (lent_.readable >= 0) {
      network_->attend(lent_.readable, true);
      readable_.store(lent_.readable);
    }
  }
  // What happened before is news to whoever lends now.
  newly_lent_.store(true);
  ring();
}

void WatchThread::arm() {
  const int readable = readable_.load();
  if (readable >= 0) network_->rearm(readable);
}

}  // namespace tutti::rendezvous
