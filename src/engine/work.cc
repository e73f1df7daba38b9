#include "tutti/work.h"

#include "engine/engine.h"

namespace tutti {
namespace {

// An ended call no longer needs its engine, which may be gone.
void rethrow_error(const engine::Pending& pending) {
  if (pending.state.load(std::memory_order_acquire) != engine::Pending::State::failed) return;
  pending.told->store(true);
  std::rethrow_exception(pending.error);
}

// A forked child has a copy of a call under way, which nobody will ever end there.
engine::AsyncCalls& calls_of(const std::shared_ptr<engine::Engine>& engine) {
  engine->require_own_process();
  return engine->async_calls();
}

}  // namespace

Work::Work(std::shared_ptr<engine::Pending> pending, std::shared_ptr<engine::Engine> engine)
    : pending_(std::move(pending)), engine_(std::move(engine)) {}

Work& Work::operator=(Work&& other) noexcept {
  const Work old(std::move(*this));  // waits for what this one held
  pending_ = std::move(other.pending_);
  engine_ = std::move(other.engine_);
  return *this;
}

Work::~Work() {
  if (!pending_ || pending_->ended()) return;
  try {
    calls_of(engine_).wait(*pending_);
  } catch (...) {
    // The communicator is aborted now, and its next call says why; or the call is that of the process that was forked.
  }
}

bool Work::test() {
  if (!pending_) return true;
  const bool ended = pending_->ended() || calls_of(engine_).test(*pending_);
  if (ended) engine_.reset();
  rethrow_error(*pending_);
  return ended;
}

void Work::wait() {
  if (!pending_) return;
  if (!pending_->ended()) calls_of(engine_).wait(*pending_);
  engine_.reset();
  rethrow_error(*pending_);
}

void Work::wait(std::chrono::milliseconds timeout) {
  if (!pending_) return;
  if (!pending_->ended()) calls_of(engine_).wait_until(*pending_, Deadline::after(timeout));
  engine_.reset();
  rethrow_error(*pending_);
}

bool Work::ended() const noexcept { return !pending_ || pending_->ended(); }

std::exception_ptr Work::error() const noexcept {
  if (!pending_ || pending_->state.load(std::memory_order_acquire) != engine::Pending::State::failed) return nullptr;
  pending_->told->store(true);
  return pending_->error;
}

void Work::on_end(std::function<void()> ended) {
  if (!pending_ || pending_->ended()) return ended();
  calls_of(engine_).on_end(*pending_, std::move(ended));
}

Received Work::received() const {
  const bool finished = pending_ && pending_->state.load(std::memory_order_acquire) == engine::Pending::State::finished;
  return finished ? pending_->received : Received{};
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti
