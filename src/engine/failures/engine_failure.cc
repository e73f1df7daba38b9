// How an engine fails: who is told, and what becomes of its calls.
#include <utility>

#include "base/rank_list.h"
#include "engine/engine.h"

namespace tutti::engine {

void Engine::throw_forked() {
  throw Error(ErrorCode::invalid_argument,
              "this communicator belongs to the process that was forked: its peers would take this child for the rank; "
              "let the child join a group of its own with init(), or fork before the group is made");
}

void Engine::abort() {
  // Where it has failed already, whoever is in a call will hear of it.
  if (!first_error_.abort_here(
          Error(ErrorCode::aborted, rank_name(rank()) + ": this process aborted the communicator")))
    return;
  transport_->notify_self();
}

Error Engine::fail_from_caller(const Error& error) {
  const Seat seat(*this);
  first_error_.tell();
  return fail(error);
}

Error Engine::fail_from_caller(const Stuck& stuck) {
  const Seat seat(*this);
  first_error_.tell();
  return fail(stuck);
}

Error Engine::fail_from_caller(const std::exception& thrown, const Track& track) {
  const Seat seat(*this);
  first_error_.tell();
  return fail(thrown, track);
}

void Engine::refuse(const Call& call, std::optional<Failure> known) {
  const Seat seat(*this);
  require_alive();  // the progress thread may have given up meanwhile, and has said why
  first_error_.tell();
  const auto failure = known ? known : transport_->failure();
  Call refused = call;
  if (!call.is_message()) refused.sequence = next_collective_;
  throw fail(explainer_.explain_refusal(refused, failure.value_or(Failure{})));
}

Error Engine::fail(const Error& error, const Pending* spoken_of) {
  first_error_.record(error);
  transport_->abort(error.peer(), error.code());
  fail_queues(error, spoken_of);
  return error;
}

Error Engine::fail(const Stuck& stuck) {
  const Error error = explainer_.explain(stuck);
  return fail(error, stuck.track != nullptr ? running_on(*stuck.track) : stuck.message->owner);
}

Error Engine::fail(const std::exception& thrown, const Track& track) {
  return fail(explainer_.explain(thrown, track), running_on(track));
}

// Beside the progress thread the caller may be in the mailbox, while it has no async messages. If that fails it finds
// out itself.
bool Engine::owns_mailbox() const {
  return message_count_.load(std::memory_order_acquire) != 0 || !thread_ || !thread_->is_this_thread();
}

const Pending* Engine::running_on(const Track& track) {
  const std::lock_guard lock(queue_mutex_);
  return track.queue.empty() ? nullptr : track.queue.front().get();
}

void Engine::end(Pending& pending, Pending::State state) {
  pending.state.store(state, std::memory_order_release);
  if (pending.on_end) std::exchange(pending.on_end, nullptr)();
  if (pending.awaited_by != nullptr) pending.awaited_by->ring();
}

void Engine::on_end(Pending& pending, std::function<void()> ended) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (!pending.ended()) {
      pending.on_end = std::move(ended);
      return;
    }
  }
  ended();
}

void Engine::fail_queues(const Error& error, const Pending* spoken_of) {
  const std::lock_guard lock(queue_mutex_);
  const auto fail_call = [&](Pending& pending, const std::string& words, bool touched) {
    pending.error =
        std::make_exception_ptr(&pending == spoken_of ? error : error_of_another(error, words, pending.call, touched));
    end(pending, Pending::State::failed);
  };
  for (const auto& track : tracks_) {
    for (const auto& pending : track->queue) {
      const bool running = pending->state.load(std::memory_order_relaxed) == Pending::State::running;
      fail_call(*pending, pending->call.describe(), running && track->touched_output());
    }
    track->queued.fetch_sub(static_cast<std::uint32_t>(track->queue.size()), std::memory_order_release);
    track->queue.clear();
  }
  queued_ = 0;
  if (messages_.empty()) return;  // the mailbox may be the caller's at this moment
  mailbox_.clear();
  posted_.clear();
  for (const auto& pending : messages_)
    fail_call(*pending, pending->message.describe(), pending->message.touched_output());
  messages_.clear();
  message_count_.store(0, std::memory_order_release);
}

}  // namespace tutti::engine
