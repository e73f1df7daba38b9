#include "runtime/progress_thread.h"

#include <algorithm>
#include <csignal>

#include "base/pause.h"
#include "base/thread.h"

namespace tutti::runtime {
namespace {

constexpr std::chrono::milliseconds kLongestSleep{20};  // between looks for a dead peer

}  // namespace

ProgressThread::Place::Place(std::shared_ptr<ProgressThread> thread, Driven& driven, transport::Transport& transport)
    : thread_(std::move(thread)), driven_(&driven), transport_(&transport) {
  const std::lock_guard lock(thread_->mutex_);
  thread_->places_.push_back(this);
}

ProgressThread::Place::~Place() {
  std::unique_lock lock(thread_->mutex_);
  thread_->places_.remove(this);
  if (!thread_->in_round_) return;
  const std::uint64_t round = thread_->rounds_;
  lock.unlock();
  transport_->notify_self();  // it may sleep
  lock.lock();
  thread_->round_ended_.wait(lock, [&] { return !thread_->in_round_ || thread_->rounds_ != round; });
}

void ProgressThread::Place::want() {
  {
    const std::lock_guard lock(thread_->mutex_);
    wanted_ = true;
    ++wishes_;
    if (thread_->dozing_ && !thread_->called_) {
      thread_->called_ = true;
      thread_->alarm_.set(thread_->manner_.grace);
    }
    const auto& busy = thread_->busy_;
    const bool seen_to = std::any_of(busy.begin(), busy.end(), [&](const Busy& it) { return it.place == this; });
    if (!thread_->in_round_ || seen_to) return;
  }
  transport_->notify_self();  // it may sleep over the work of others
}

void ProgressThread::Place::take_back() {
  const std::lock_guard lock(thread_->mutex_);
  wanted_ = false;
  const auto& places = thread_->places_;
  if (!thread_->called_ || std::any_of(places.begin(), places.end(), [](const Place* it) { return it->wanted_; }))
    return;
  thread_->alarm_.take_back();
  thread_->called_ = false;
}

ProgressThread::ProgressThread(const Manner& manner) : manner_(manner) {
  thread_ = make_thread(manner.name, [this] { run(); });
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  alarm_.set(std::chrono::nanoseconds(0));
  thread_.join();
}

void ProgressThread::run() {
  // Signals are for the threads of the program.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (begin_round()) {
      lock.unlock();
      round();
      lock.lock();
      end_round();
      continue;
    }
    spins_ = 0;
    dozing_ = true;
    lock.unlock();
    alarm_.wait();
    lock.lock();
    dozing_ = called_ = false;
  }
}

bool ProgressThread::begin_round() {
  busy_.clear();
  for (Place* const place : places_) {
    if (place->wanted_) busy_.push_back({place, place->wishes_});
  }
  if (busy_.empty()) return false;
  in_round_ = true;
  ++rounds_;
  return true;
}

void ProgressThread::end_round() {
  in_round_ = false;
  round_ended_.notify_all();
}

// Who has nothing left to do does not want the thread any more, unless it has said so again meanwhile.
Driven::Progress ProgressThread::drive_all(Driven::Progress (Driven::*how)()) {
  Driven::Progress most = Driven::Progress::idle;
  for (const Busy& busy : busy_) {
    const Driven::Progress progress = (busy.place->driven_->*how)();
    most = std::max(most, progress);
    if (progress != Driven::Progress::idle) continue;
    const std::lock_guard lock(mutex_);
    if (busy.place->wishes_ == busy.wishes) busy.place->wanted_ = false;
  }
  return most;
}

void ProgressThread::round() {
  const Driven::Progress progress = drive_all(&Driven::drive);
  if (progress != Driven::Progress::stuck) {
    spins_ = 0;
  } else if (spins_ < manner_.spins) {
    ++spins_;
    pause_core();
  } else {
    sleep();
  }
}

// They sleep in one place: whatever wakes one of them wakes all, and the first ticket is the oldest.
void ProgressThread::sleep() {
  transport::Transport& first = *busy_.front().place->transport_;
  const std::uint32_t ticket = first.prepare_sleep();
  for (std::size_t i = 1; i < busy_.size(); ++i) busy_[i].place->transport_->prepare_sleep();
  if (drive_all(&Driven::drive_or_fail) == Driven::Progress::stuck) first.sleep(ticket, kLongestSleep);
}

std::shared_ptr<ProgressThread> ProgressThreads::of(const transport::Transport& transport) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<ProgressThread>& known = threads_[transport.sleeping_place()];
  std::shared_ptr<ProgressThread> thread = known.lock();
  if (!thread) known = thread = std::make_shared<ProgressThread>(manner_);
  return thread;
}

}  // namespace tutti::runtime
