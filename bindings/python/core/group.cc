#include "core/group.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "core/errors.h"

namespace tutti::python {
namespace {

std::atomic<int> forks{0};

int forks_so_far() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

thread_local const std::atomic<bool>* stopped_by = nullptr;

// A handler that raises leaves its exception with the thread, where rethrow_python_error() finds it.
bool handlers_raised(void*) {
  if (stopped_by != nullptr) return stopped_by->load(std::memory_order_relaxed);
  const nb::gil_scoped_acquire acquired;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

// On threads that are not Python's main one this asks in vain, a few times a second.
Interruptible::Interruptible() : check_(handlers_raised) {}

void Interruptible::rethrow_python_error() {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

StoppedBy::StoppedBy(const std::atomic<bool>& flag) { stopped_by = &flag; }
StoppedBy::~StoppedBy() { stopped_by = nullptr; }

Group::Group(Communicator communicator)
    : communicator_(std::move(communicator)),
      forks_(forks_so_far()),
      rank_(communicator_.rank()),
      size_(communicator_.size()) {}

// Python may be collecting garbage: this is no time to wait for others.
Group::~Group() { give_up(); }

bool Group::in_own_process() const { return forks_ == forks.load(std::memory_order_relaxed); }

void Group::require_own_process() const {
  if (!in_own_process())
    refuse("this communicator belongs to the process that was forked; a child must join a group of its own");
}

void Group::require_usable() const {
  require_own_process();
  if (closed_) refuse("this communicator was closed; calls need an open one");
}

int Group::rank() const {
  require_usable();
  return rank_;
}

int Group::size() const {
  require_usable();
  return size_;
}

void Group::close() {
  if (closed_) return;
  closed_ = true;
  if (!in_own_process()) return leave();
  try {
    without_gil([&] {
      std::exception_ptr first;
      for (Underway& underway : left_behind_) {
        try {
          underway.work.wait();
        } catch (const Error&) {
          if (underway.work.error() == nullptr) throw;  // Ctrl-C
          if (!first) first = std::current_exception();
        }
      }
      if (first) std::rethrow_exception(first);
    });
  } catch (...) {
    give_up();
    throw;
  }
  left_behind_.clear();
  leave_when_idle();
}

void Group::give_up() {
  closed_ = true;
  if (!communicator_.valid()) return;
  if (in_own_process()) {
    sweep();
    if (handles_ != 0 || !left_behind_.empty()) {
      const nb::gil_scoped_release released;
      communicator_.abort();
      for (Underway& underway : left_behind_) {
        try {
          underway.work.wait();
        } catch (const Error&) {
          continue;  // as it is meant to
        }
      }
    }
  }
  leave();
}

void Group::leave_when_idle() {
  if (closed_ && handles_ == 0 && left_behind_.empty()) leave();
}

void Group::leave() {
  if (!in_own_process()) {
    // What was under way is the parent's: to end it here would wait for threads that are not there.
    static_cast<void>(new std::vector<Underway>(std::move(left_behind_)));
    communicator_.close();
    return;
  }
  {
    const nb::gil_scoped_release released;
    communicator_.close();
  }
  left_behind_.clear();
}

Group::Turn::Turn(Group& group, bool closed_too) : group_(&group) {
  if (closed_too) {
    group.require_own_process();
  } else {
    group.require_usable();
  }
  if (group.busy_) {
    refuse(
        "another thread is in a call of this communicator, which serves one thread at a time; a thread of its own "
        "needs "
        "a communicator of its own (comm.duplicate())");
  }
  group.busy_ = true;
  if (!group.left_behind_.empty()) group.sweep();
}

void Group::end_handle() {
  --handles_;
  leave_when_idle();
}

void Group::leave_behind(Underway underway) {
  if (!in_own_process()) {
    static_cast<void>(new Underway(std::move(underway)));
    return;
  }
  --handles_;
  left_behind_.push_back(std::move(underway));
}

void Group::sweep() {
  std::erase_if(left_behind_, [](Underway& underway) {
    try {
      return underway.work.test();
    } catch (const Error&) {
      return true;  // the next call says it
    }
  });
}

}  // namespace tutti::python
