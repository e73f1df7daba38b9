#include "transport/poll_bell.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/system_error.h"

namespace tutti::transport {
namespace {

constexpr int kMostEvents = 64;

}  // namespace

PollBell::PollBell() : poll_(::epoll_create1(EPOLL_CLOEXEC)), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!poll_.valid()) throw_errno("epoll_create (too many open files?)");
  if (!event_.valid()) throw_errno("eventfd (too many open files?)");
  add(event_.get(), EPOLLIN | EPOLLET);
}

void PollBell::add(int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("epoll_ctl");
}

void PollBell::take() {
  epoll_event events[kMostEvents];
  while (::epoll_wait(poll_.get(), events, kMostEvents, 0) == kMostEvents) {
  }
}

void PollBell::wake() {
  bool polling = false;
  {
    const std::lock_guard lock(mutex_);
    rings_.fetch_add(1, std::memory_order_release);
    polling = polling_;
  }
  rung_.notify_all();
  if (polling) ::eventfd_write(event_.get(), 1);
}

void PollBell::poll(std::chrono::nanoseconds at_most) {
  using std::chrono::milliseconds;
  const auto rounded =
      std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(at_most, std::chrono::hours(1)));
  epoll_event events[kMostEvents];
  ::epoll_wait(poll_.get(), events, kMostEvents, static_cast<int>(rounded.count()));
}

}  // namespace tutti::transport
