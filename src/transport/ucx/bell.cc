#include "transport/ucx/bell.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/system_error.h"

namespace tutti::transport {
namespace {

void watch(int poll, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("epoll_ctl");
}

}  // namespace

WorkerBell::WorkerBell(int worker, std::function<bool()> settle, std::function<void()> elsewhere)
    : poll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      settle_(std::move(settle)),
      elsewhere_(std::move(elsewhere)) {
  if (!poll_.valid()) throw_errno("epoll_create (too many open files?)");
  if (!event_.valid()) throw_errno("eventfd (too many open files?)");
  watch(poll_.get(), event_.get(), EPOLLIN | EPOLLET);
  watch(poll_.get(), worker, EPOLLIN);
}

void WorkerBell::ring() {
  if (elsewhere_) return elsewhere_();
  bool polling = false;
  {
    const std::lock_guard lock(mutex_);
    rings_.fetch_add(1, std::memory_order_release);
    polling = polling_;
  }
  rung_.notify_all();
  if (polling) ::eventfd_write(event_.get(), 1);
}

void WorkerBell::sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  if (rings() != ticket) return;
  if (polling_) {
    rung_.wait_for(lock, at_most, [&] { return rings() != ticket; });
    return;
  }
  polling_ = true;
  lock.unlock();
  if (settle_()) poll(at_most);
  lock.lock();
  polling_ = false;
  // Even if nothing has happened: one of the others has to poll now.
  rings_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  rung_.notify_all();
}

void WorkerBell::poll(std::chrono::nanoseconds at_most) {
  using std::chrono::milliseconds;
  const auto rounded =
      std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(at_most, std::chrono::hours(1)));
  epoll_event events[2];
  ::epoll_wait(poll_.get(), events, 2, static_cast<int>(rounded.count()));
}

}  // namespace tutti::transport
