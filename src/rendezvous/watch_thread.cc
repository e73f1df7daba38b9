#include "rendezvous/watch_thread.h"

#include <sys/eventfd.h>

#include "base/rank_list.h"
#include "base/system_error.h"
#include "rendezvous/roster.h"

namespace tutti::rendezvous {
namespace {

constexpr Time kFarewellTime = std::chrono::milliseconds(200);

}  // namespace

WatchThread::WatchThread(std::unique_ptr<EpollNetwork> network, const Watch::Options& options,
                         std::unique_ptr<StandbyThread> thread, Log log, std::vector<std::string> names)
    : rank_(options.rank),
      silence_(options.silence),
      log_(log),
      names_(std::move(names)),
      network_(std::move(network)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watch_(*network_, options, EpollNetwork::now()),
      announced_(static_cast<std::size_t>(options.size)),
      departed_(static_cast<std::size_t>(options.size)),
      thread_(std::move(thread)) {
  if (!bell_.valid()) throw_errno("eventfd");
  network_->on_attended([this](int descriptor) { attended(descriptor); });
  network_->attend(bell_.get(), false);
  watch_.set_say([this] { return statements(); });
  watch_.set_quiet_for([this](int peer) { return quiet_for(peer); });
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
  try {
    watch_until_end();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void WatchThread::watch_until_end() {
  while (!ending_.load()) {
    network_->poll(watch_, kNever);
    obey();
    publish();
    tell_suspicions();
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
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.load()) {
      failure_ = {rank_, -1, false, Loss::ended, ErrorCode::system};
      failure_.words = "this rank can no longer tell who is alive, because its control plane has failed: " + why;
      failed_.store(true, std::memory_order_release);
    }
  }
  // Whatever ended it may end these, too.
  try {
    watch_.abort(-1, ErrorCode::system);
    say_farewell();
  } catch (const std::exception&) {
    network_->drop_connections();  // the others see at once that this rank is lost
  }
  try {
    wake();
  } catch (const std::exception&) {
    // Whoever waits finds the failure when it looks the next time.
  }
}

void WatchThread::obey() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    switch (command.kind) {
      case Command::Kind::announce: watch_.announce(command.channel, command.statement); break;
      case Command::Kind::abort: watch_.abort(command.rank, command.cause); break;
      case Command::Kind::lose: watch_.lose(command.rank, command.loss); break;
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
  wake();
}

void WatchThread::wake() {
  const std::lock_guard lock(lent_mutex_);
  if (lent_.wake) lent_.wake();
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

Time WatchThread::quiet_for(int peer) {
  const std::lock_guard lock(lent_mutex_);
  return lent_.quiet_for ? lent_.quiet_for(peer) : kNever;
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
  command.kind = Command::Kind::abort;
  command.rank = culprit;
  command.cause = cause;
  leave(command);
}

void WatchThread::lose(int peer, Loss loss) {
  Command command;
  command.kind = Command::Kind::lose;
  command.rank = peer;
  command.loss = loss;
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
