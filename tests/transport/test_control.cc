#include "transport/test_control.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/system_error.h"

namespace tutti::testing {
namespace {

struct News {
  enum class Kind { goodbye, gives_up, statement } kind = Kind::goodbye;
  int culprit = -1;
  ErrorCode cause = ErrorCode::peer_failed;
  std::uint32_t channel = 0;
  Statement statement;
};

class TestControl final : public Control {
 public:
  TestControl(int rank, std::vector<FileDescriptor> peers)
      : rank_(rank),
        peers_(std::move(peers)),
        departed_(peers_.size()),
        ended_(peers_.size()),
        event_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this] { run(); });
  }

  ~TestControl() override {
    tell(News{});
    stop_ = true;
    ::eventfd_write(event_.get(), 1);
    thread_.join();
  }

  std::optional<Failure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool departed(int peer) const override {
    const std::lock_guard lock(mutex_);
    return departed_[static_cast<std::size_t>(peer)];
  }
  std::uint64_t left_at(int peer) const override { return departed(peer) ? ~std::uint64_t{0} : 0; }
  void abort(int culprit, ErrorCode cause) override {
    const Failure failure{rank_, culprit, false, Loss::ended, cause};
    fail(failure, [&] { tell({News::Kind::gives_up, culprit, cause, 0, {}}); });
    ::eventfd_write(event_.get(), 1);
  }
  void lose(int, Loss) override {}
  void announce(std::uint32_t channel, const Statement& statement) override {
    const std::lock_guard lock(hooks_mutex_);
    tell({News::Kind::statement, -1, ErrorCode::peer_failed, channel, statement});
  }
  Statement announced(std::uint32_t channel, int peer) const override {
    const std::lock_guard lock(mutex_);
    const auto found = announced_.find({channel, peer});
    return found == announced_.end() ? Statement{} : found->second;
  }
  void attach(Hooks hooks) override {
    const std::lock_guard lock(hooks_mutex_);
    hooks_ = std::move(hooks);
  }

 private:
  void tell(const News& news) {
    for (const FileDescriptor& peer : peers_) {
      if (peer.valid()) ::send(peer.get(), &news, sizeof news, MSG_NOSIGNAL);
    }
  }

  // As the real one does it: the first failure counts, and shows here only after this rank has said what it is in. So
  // whatever a rank says because it has seen the failure comes later.
  template <class Tell>
  void fail(const Failure& failure, Tell&& tell_it) {
    const std::lock_guard saying(hooks_mutex_);  // what is asked for here is told before anything newer is announced
    if (this->failure()) return;
    tell_it();
    for (std::uint32_t channel = 0; hooks_.say && channel < hooks_.channels; ++channel) {
      tell({News::Kind::statement, -1, ErrorCode::peer_failed, channel, hooks_.say(channel)});
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  void fail(const Failure& failure) {
    fail(failure, [] {});
  }

  void run() {
    while (!stop_) {
      std::vector<pollfd> entries{{event_.get(), POLLIN, 0}};
      for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
        entries.push_back({ended_[peer] ? -1 : peers_[peer].get(), POLLIN, 0});
      }
      ::poll(entries.data(), entries.size(), -1);
      eventfd_t count = 0;
      const bool asked = entries[0].revents != 0 && ::eventfd_read(event_.get(), &count) == 0;
      bool news = asked && failure().has_value();
      for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
        if (entries[peer + 1].revents != 0) news = hear(static_cast<int>(peer)) || news;
      }
      const std::lock_guard lock(hooks_mutex_);
      if (news && hooks_.wake) hooks_.wake();
    }
  }

  bool hear(int peer) {
    News news;
    const int socket = peers_[static_cast<std::size_t>(peer)].get();
    ssize_t got = 0;
    do {  // a peer that closes without having read everything resets the connection; what it said is still there
      got = ::recv(socket, &news, sizeof news, MSG_DONTWAIT);
    } while (got < 0 && errno == ECONNRESET);
    if (got != static_cast<ssize_t>(sizeof news)) {
      if (!departed(peer)) fail({peer, -1, true});
      ended_[static_cast<std::size_t>(peer)] = true;
      return true;
    }
    if (news.kind == News::Kind::gives_up) fail({peer, news.culprit, false, Loss::ended, news.cause});
    const std::lock_guard lock(mutex_);
    if (news.kind == News::Kind::goodbye) departed_[static_cast<std::size_t>(peer)] = true;
    if (news.kind == News::Kind::statement) announced_[{news.channel, peer}] = news.statement;
    return true;
  }

  int rank_;
  std::vector<FileDescriptor> peers_;
  std::vector<bool> departed_;
  std::vector<bool> ended_;  // only the control plane's own thread knows
  FileDescriptor event_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // of failure_, departed_, announced_
  std::optional<Failure> failure_;
  std::map<std::pair<std::uint32_t, int>, Statement> announced_;
  std::mutex hooks_mutex_;  // taken before mutex_
  Hooks hooks_;
  std::thread thread_;
};

constexpr int kLookEvery = 50;  // ms

// All connections are there already: tells of them, and asks for what happens at them.
class TestLinks final : public Links {
 public:
  explicit TestLinks(std::vector<Made> made)
      : made_(std::move(made)), event_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~TestLinks() override {
    stop_ = true;
    ::eventfd_write(event_.get(), 1);
    thread_.join();
  }

  void want(int, std::uint32_t) override {}
  void attach(Hooks hooks) override {
    const std::lock_guard lock(mutex_);
    hooks_ = std::move(hooks);
    if (!hooks_.linked) return;
    for (Made& made : std::exchange(made_, {})) hooks_.linked(std::move(made));
  }
  void arm() override {
    armed_ = true;
    ::eventfd_write(event_.get(), 1);
  }

 private:
  void run() {
    while (!stop_) {
      pollfd entries[] = {{event_.get(), POLLIN, 0}, {armed_ ? readable() : -1, POLLIN, 0}};
      ::poll(entries, 2, kLookEvery);
      eventfd_t count = 0;
      if (entries[0].revents != 0) ::eventfd_read(event_.get(), &count);
      const std::lock_guard lock(mutex_);
      if (hooks_.look) hooks_.look();
      if (entries[1].revents == 0) continue;
      armed_ = false;
      if (hooks_.happened) hooks_.happened();
    }
  }
  int readable() {
    const std::lock_guard lock(mutex_);
    return hooks_.readable;
  }

  std::vector<Made> made_;
  FileDescriptor event_;
  std::atomic<bool> stop_{false}, armed_{false};
  std::mutex mutex_;
  Hooks hooks_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Links> make_test_links(std::vector<Links::Made> made) {
  return std::make_shared<TestLinks>(std::move(made));
}

std::pair<FileDescriptor, FileDescriptor> make_control_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::unique_ptr<Control> make_test_control(int rank, std::vector<FileDescriptor> peers) {
  return std::make_unique<TestControl>(rank, std::move(peers));
}

}  // namespace tutti::testing
