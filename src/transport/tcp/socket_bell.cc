#include "transport/tcp/socket_bell.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/system_error.h"

namespace tutti::transport {
namespace {

constexpr int kMostEvents = 64;

}  // namespace

SocketBell::SocketBell(std::function<void()> elsewhere)
    : poll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      elsewhere_(std::move(elsewhere)) {
  if (!poll_.valid()) throw_errno("epoll_create (too many open files?)");
  if (!event_.valid()) throw_errno("eventfd (too many open files?)");
  add(event_.get(), EPOLLIN);
}

void SocketBell::watch(int socket) { add(socket, EPOLLIN | EPOLLOUT); }

void SocketBell::add(int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLET;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("epoll_ctl");
}

void SocketBell::take() {
  epoll_event events[kMostEvents];
  while (::epoll_wait(poll_.get(), events, kMostEvents, 0) == kMostEvents) {
  }
}

void SocketBell::ring() {
  if (elsewhere_) {
    // Who arms after the store gets a ring of its own; who armed before it has prepared to sleep, and is woken here.
    armed_.store(false, std::memory_order_seq_cst);
    take();
    return elsewhere_();
  }
  bool polling = false;
  {
    const std::lock_guard lock(mutex_);
    rings_.fetch_add(1, std::memory_order_release);
    polling = polling_;
  }
  rung_.notify_all();
  if (polling) ::eventfd_write(event_.get(), 1);
}

void SocketBell::sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  if (rings() != ticket) return;
  if (polling_) {
    rung_.wait_for(lock, at_most, [&] { return rings() != ticket; });
    return;
  }
  polling_ = true;
  lock.unlock();
  poll(at_most);
  lock.lock();
  polling_ = false;
  // Even if nothing has happened: one of the others has to poll now.
  rings_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  rung_.notify_all();
}

void SocketBell::poll(std::chrono::nanoseconds at_most) {
  using std::chrono::milliseconds;
  const auto rounded =
      std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(at_most, std::chrono::hours(1)));
  epoll_event events[kMostEvents];
  ::epoll_wait(poll_.get(), events, kMostEvents, static_cast<int>(rounded.count()));
}

}  // namespace tutti::transport
