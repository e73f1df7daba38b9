#include "tools/launch/crew.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/system_error.h"
#include "rendezvous/host.h"

namespace tutti::tools {

Crew::Crew(const Signals& signals) : signals_(signals), ends_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!ends_.valid()) throw_errno("cannot watch processes");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno("cannot adopt what ranks leave behind");
}

Crew::~Crew() {
  signal_all(SIGKILL);
  for (const Member& member : members_) {
    if (member.over) continue;
    while (::waitpid(-member.pid, nullptr, 0) > 0 || errno == EINTR) {
    }
    guard_.release(member.pid);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void Crew::start(int rank, const ProcessStart& start) {
  Member member;
  member.rank = rank;
  member.pid = start_process(start, signals_);
  member.started = Clock::now();
  guard_.watch(member.pid);
  members_.push_back(member);
  pidfds_.push_back(rendezvous::watch_process(member.pid));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = members_.size() - 1;
  if (!pidfds_.back().valid() || ::epoll_ctl(ends_.get(), EPOLL_CTL_ADD, pidfds_.back().get(), &event) != 0) {
    throw_errno("cannot watch the process of a rank");
  }
}

void Crew::signal_all(int signal) const {
  for (const Member& member : members_) {
    if (!member.over) ::kill(-member.pid, signal);
  }
}

std::vector<std::size_t> Crew::reap() {
  std::vector<std::size_t> found;
  std::vector<epoll_event> events(members_.size());
  const int ready = ::epoll_wait(ends_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
    Member& member = members_[index];
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(member.pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) continue;
    member.ending = ending_of(info);
    member.ended = Clock::now();
    pidfds_[index].reset();  // leaves the epoll, too
    found.push_back(index);
  }
  reap_adopted();
  note_groups_that_are_over();
  return found;
}

void Crew::reap_adopted() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto is_it = [&](const Member& member) { return member.pid == info.si_pid && !member.ending; };
    if (std::any_of(members_.begin(), members_.end(), is_it)) return;  // ended just now: another SIGCHLD is on its way
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    info = {};
  }
}

void Crew::note_groups_that_are_over() {
  for (Member& member : members_) {
    if (!member.ending || member.over) continue;
    siginfo_t info{};
    const auto group = static_cast<id_t>(member.pid);
    member.over = ::waitid(P_PGID, group, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
    if (member.over) guard_.release(member.pid);
  }
}

void Crew::abandon() {
  for (Member& member : members_) member.over = true;
}

bool Crew::all_ended() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.ending.has_value(); });
}

bool Crew::all_over() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.over; });
}

}  // namespace tutti::tools
