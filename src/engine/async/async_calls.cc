#include "engine/async/async_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/rank_list.h"
#include "engine/execute/waiter.h"

namespace tutti::engine {

AsyncCalls::~AsyncCalls() {
  thread_.reset();  // which returns when nobody drives the queues any more
  if (queued_ != 0) {
    // The peers of these calls must not wait for a rank that is gone, nor their Works for an engine that is.
    with_.transport.abort(-1, ErrorCode::aborted);
    withdraw_all();
    fail_all(Error(ErrorCode::aborted, "the communicator was destroyed before this call ended"), nullptr);
  }
}

AsyncCalls::Seat::Seat(AsyncCalls& calls) : calls_(&calls) {
  {
    const std::lock_guard lock(calls.queue_mutex_);
    ++calls.waiting_callers_;
    if (calls.thread_) calls.thread_->take_back();
  }
  driving_ = std::unique_lock(calls.driving_);
  calls.with_.staging.set_caller_drives(true);
}

AsyncCalls::Seat::~Seat() {
  calls_->with_.staging.set_caller_drives(false);
  driving_.unlock();
  const std::lock_guard lock(calls_->queue_mutex_);
  if (--calls_->waiting_callers_ == 0 && calls_->queued_ != 0) calls_->thread_->want();
}

void AsyncCalls::join_thread() {
  if (thread_) return;
  runtime::Driven& queues = *this;
  thread_ =
      std::make_unique<runtime::ProgressThread::Place>(with_.threads.of(with_.transport), queues, with_.transport);
}

void AsyncCalls::enqueue(std::span<const std::shared_ptr<Pending>> calls) {
  {
    const std::lock_guard lock(queue_mutex_);
    for (const auto& pending : calls) {
      if (pending->call.is_message()) {
        pending->place = messages_.size();
        messages_.push_back(pending);
        posted_.push_back(pending.get());
        message_count_.fetch_add(1, std::memory_order_release);
      } else {
        pending->track->queue.push_back(pending);
        pending->track->queued.fetch_add(1, std::memory_order_release);
      }
      ++queued_;
    }
    if (waiting_callers_ == 0) thread_->want();
  }
  with_.transport.notify_self();
}

// Beside the progress thread the caller may be in the mailbox, while it has no async messages. If that fails it finds
// out itself.
bool AsyncCalls::owns_mailbox() const { return has_messages() || !thread_ || !thread_->is_this_thread(); }

// Before the blocking call gets its number: a program that is interrupted here has not made it.
void AsyncCalls::drain(Track& track) {
  for (;;) {
    std::shared_ptr<Pending> last;
    {
      const std::lock_guard lock(queue_mutex_);
      if (track.queue.empty()) break;
      last = track.queue.back();
    }
    wait(*last);
  }
  with_.first_error.require_none();
}

bool AsyncCalls::test(Pending& pending) {
  if (!pending.ended()) {
    if (const std::unique_lock lock(driving_, std::try_to_lock); lock.owns_lock()) progress();
  }
  return pending.ended();
}

AwaitedNow AsyncCalls::awaited_by(const Pending& pending) const {
  const auto state = pending.state.load(std::memory_order_relaxed);
  if (pending.track != nullptr) {  // the call, or one that it has to follow
    if (state >= Pending::State::finished || pending.track->queued.load(std::memory_order_relaxed) == 0) return {};
    return {pending.track->blocked(), pending.track->call().sequence};
  }
  if (state != Pending::State::running) return {};
  return {with_.mailbox.blocked(pending.message), pending.call.sequence};
}

void AsyncCalls::wait_until(Pending& pending, const Deadline& deadline) {
  const Seat seat(*this);
  Stuck stuck;
  const auto look = [&] {
    const Advance advance = progress();
    return pending.ended() ? Advance::finished : advance;
  };
  const auto hopeless = [&] { return (stuck = find_stuck()).any(); };
  Waiter waiter(with_.transport, deadline);
  const TimedWait timed(with_.counter, pending.call.verb);
  Waiter::Outcome outcome = Waiter::Outcome::finished;
  if (const trace::GroupRecorder* const group = pending.call.recorder; group != nullptr) {
    const RecordedWork work(group, pending.call.sequence);
    outcome = waiter.until_finished(look, hopeless, WaitRecord(*group, [&] { return awaited_by(pending); }));
  } else {
    outcome = waiter.until_finished(look, hopeless);
  }
  if (!with_.counter.timed()) with_.counter.add_wait(pending.call.verb, waiter.waited());
  if (outcome == Waiter::Outcome::hopeless) fail(stuck);
  if (outcome == Waiter::Outcome::timed_out) {
    throw Error(ErrorCode::timeout, rank_name(with_.transport.rank()) + ", " + pending.call.describe() +
                                        ": still under way when the time given to wait() had passed");
  }
}

bool AsyncCalls::wait_any(std::span<Pending* const> calls, const Deadline& deadline) {
  const auto any_ended = [&] {
    return std::any_of(calls.begin(), calls.end(), [](const Pending* call) { return call->ended(); });
  };
  const Seat seat(*this);
  if (any_ended()) return true;
  Stuck stuck;
  const auto look = [&] {
    const Advance advance = progress();
    return advance != Advance::stuck && any_ended() ? Advance::finished : advance;
  };
  const auto hopeless = [&] { return (stuck = find_stuck()).any(); };
  Waiter waiter(with_.transport, deadline);
  const TimedWait timed(with_.counter, calls.front()->call.verb);
  const RecordedWork recorded(calls.front()->call.recorder, calls.front()->call.sequence);
  const Waiter::Outcome outcome = waiter.until_finished(look, hopeless);
  if (!with_.counter.timed()) with_.counter.add_wait(calls.front()->call.verb, waiter.waited());
  if (outcome == Waiter::Outcome::hopeless) fail(stuck);
  return outcome != Waiter::Outcome::timed_out;
}

bool AsyncCalls::ring_at_end(Pending& pending, Event* event) {
  const std::lock_guard lock(queue_mutex_);
  pending.awaited_by = event;
  return !pending.ended();
}

void AsyncCalls::on_end(Pending& pending, std::function<void()> ended) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (!pending.ended()) {
      pending.on_end = std::move(ended);
      return;
    }
  }
  ended();
}

void AsyncCalls::end(Pending& pending, Pending::State state) {
  if (pending.began != CallCounter::Clock::time_point()) with_.counter.end(pending.call.verb, pending.began);
  pending.staging.reset();
  pending.state.store(state, std::memory_order_release);
  if (pending.on_end) std::exchange(pending.on_end, nullptr)();
  if (pending.awaited_by != nullptr) pending.awaited_by->ring();
}

runtime::Driven::Progress AsyncCalls::drive_queues(bool judges) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (queued_ == 0) return Progress::idle;
  }
  const std::unique_lock driving(driving_, std::try_to_lock);
  if (!driving.owns_lock()) return Progress::stuck;
  if (progress() != Advance::stuck) return Progress::moved;
  if (!judges) return Progress::stuck;
  const Stuck stuck = find_stuck();
  if (!stuck.any()) return Progress::stuck;
  // What peers published before they failed or left counts: only what is still missing now will never come.
  if (progress() == Advance::stuck) fail(stuck);
  return Progress::moved;
}

Advance AsyncCalls::progress() {
  Advance overall = Advance::stuck;
  for (const auto& track : with_.tracks) {
    if (track->queued.load(std::memory_order_acquire) == 0) continue;
    if (progress_track(*track) != Advance::stuck) overall = Advance::moved;
  }
  if (has_messages() && progress_messages() != Advance::stuck) overall = Advance::moved;
  return overall;
}

Advance AsyncCalls::progress_track(Track& track) {
  std::shared_ptr<Pending> first;
  {
    const std::lock_guard lock(queue_mutex_);
    if (track.queue.empty()) return Advance::stuck;
    first = track.queue.front();
  }
  Advance advance = Advance::stuck;
  try {
    if (first->state.load(std::memory_order_relaxed) == Pending::State::queued) {
      track.draft() = first->call;
      if (first->call.recorder != nullptr) first->times.taken_up = first->call.recorder->recorder->now();
      track.start();
      first->state.store(Pending::State::running, std::memory_order_relaxed);
    }
    advance = track.advance();
  } catch (const std::exception& error) {
    fail(error, track);
    return Advance::moved;
  }
  if (advance != Advance::finished) return advance;
  if (first->call.recorder != nullptr) {
    first->times.ended = track.ended_at();
    with_.records.record(*first->call.recorder, first->call, track.done_by(), first->times, true);
  }
  {
    const std::lock_guard lock(queue_mutex_);
    track.queue.pop_front();
    --queued_;
    track.queued.fetch_sub(1, std::memory_order_release);
    end(*first, Pending::State::finished);
  }
  return Advance::moved;
}

Advance AsyncCalls::progress_messages() {
  Mailbox& mailbox = with_.mailbox;
  Advance advance = Advance::stuck;
  try {
    {
      const std::lock_guard lock(queue_mutex_);
      for (Pending* const pending : posted_) {
        pending->state.store(Pending::State::running, std::memory_order_relaxed);
        if (pending->call.recorder != nullptr) pending->times.taken_up = pending->call.recorder->recorder->now();
        mailbox.post(pending->message);
      }
      posted_.clear();
    }
    advance = mailbox.advance();
  } catch (const std::exception& error) {
    fail(error_of_messages(error));
    return Advance::moved;
  }
  finish_messages();
  return advance;
}

void AsyncCalls::finish_messages() {
  Mailbox& mailbox = with_.mailbox;
  if (mailbox.ended().empty()) return;
  const std::lock_guard lock(queue_mutex_);
  std::uint32_t finished = 0;
  for (Message* const message : mailbox.ended()) {
    if (message->owner == nullptr) continue;  // a blocking one, whose caller looks for itself
    Pending& pending = *message->owner;
    pending.received = message->received;
    if (pending.call.recorder != nullptr)
      with_.records.record_message(*pending.call.recorder, pending.call, pending.times, true);
    // The last one takes its place.
    const std::shared_ptr<Pending> owner = std::move(messages_[pending.place]);
    if (messages_.back() != nullptr) {
      messages_.back()->place = pending.place;
      messages_[pending.place] = std::move(messages_.back());
    }
    messages_.pop_back();
    --queued_;
    ++finished;
    end(*owner, Pending::State::finished);
  }
  mailbox.ended().clear();
  message_count_.fetch_sub(finished, std::memory_order_release);  // the mailbox may be the caller's from here on
}

Stuck AsyncCalls::find_stuck() {
  const bool aborted = with_.first_error.aborted_here();
  for (const auto& track : with_.tracks) {
    {
      const std::lock_guard lock(queue_mutex_);
      if (track->queue.empty()) continue;
      if (track->queue.front()->state.load(std::memory_order_relaxed) != Pending::State::running) continue;
    }
    if (aborted || track->hopeless()) return {track.get(), nullptr};
  }
  if (!has_messages()) return {};
  if (aborted) {
    const std::lock_guard lock(queue_mutex_);
    return {nullptr, messages_.empty() ? nullptr : &messages_.front()->message};
  }
  return {nullptr, with_.mailbox.find_hopeless()};
}

Error AsyncCalls::fail(const Error& error, const Pending* spoken_of) {
  with_.first_error.record(error);
  with_.transport.abort(error.peer(), error.code());
  withdraw_all();
  fail_all(error, spoken_of);
  return error;
}

Error AsyncCalls::fail(const Stuck& stuck) {
  const Error error = with_.explainer.explain(stuck);
  return fail(error, stuck.track != nullptr ? running_on(*stuck.track) : stuck.message->owner);
}

Error AsyncCalls::fail(const std::exception& thrown, const Track& track) {
  return fail(with_.explainer.explain(thrown, track), running_on(track));
}

const Pending* AsyncCalls::running_on(const Track& track) {
  const std::lock_guard lock(queue_mutex_);
  return track.queue.empty() ? nullptr : track.queue.front().get();
}

// What is not locked meanwhile others may need, whom a launch of theirs waits for. A blocking call is its caller's.
void AsyncCalls::withdraw_all() {
  for (const auto& track : with_.tracks) {
    const std::shared_ptr<Pending> first = [&] {
      const std::lock_guard lock(queue_mutex_);
      return track->queue.empty() ? nullptr : track->queue.front();
    }();
    if (first != nullptr && first->state.load(std::memory_order_relaxed) == Pending::State::running) track->withdraw();
  }
}

void AsyncCalls::fail_all(const Error& error, const Pending* spoken_of) {
  const std::lock_guard lock(queue_mutex_);
  const auto fail_call = [&](Pending& pending, const std::string& words, bool touched) {
    pending.error =
        std::make_exception_ptr(&pending == spoken_of ? error : error_of_another(error, words, pending.call, touched));
    end(pending, Pending::State::failed);
  };
  for (const auto& track : with_.tracks) {
    for (const auto& pending : track->queue) {
      const bool running = pending->state.load(std::memory_order_relaxed) == Pending::State::running;
      fail_call(*pending, pending->call.describe(), running && track->touched_output());
    }
    track->queued.fetch_sub(static_cast<std::uint32_t>(track->queue.size()), std::memory_order_release);
    track->queue.clear();
  }
  queued_ = 0;
  if (messages_.empty()) return;  // the mailbox may be the caller's at this moment
  with_.mailbox.clear();
  posted_.clear();
  for (const auto& pending : messages_)
    fail_call(*pending, pending->message.describe(), pending->message.touched_output());
  messages_.clear();
  message_count_.store(0, std::memory_order_release);
}

}  // namespace tutti::engine
