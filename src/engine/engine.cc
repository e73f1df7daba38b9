#include "engine/engine.h"

namespace tutti::engine {

Engine::Engine(std::unique_ptr<transport::Transport> transport, Options options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      plans_(*transport_, kTracks + 1),
      chooser_(transport_->size(), options_.algorithm) {
  for (std::size_t type = 0; type < kDTypes; ++type) {
    for (std::size_t op = 0; op < kReduceOps; ++op) {
      reduces_[type][op] = kernels::find_reduce(static_cast<DType>(type), static_cast<ReduceOp>(op));
    }
  }
  for (int track = 0; track < kTracks; ++track)
    tracks_.push_back(std::make_unique<Track>(*transport_, plans_, chooser_, track));
  // To each peer, then from each peer: an edge belongs to one track, so they share a channel.
  for (int track = 0; track < 2 * size(); ++track)
    tracks_.push_back(std::make_unique<Track>(*transport_, plans_, chooser_, kTracks));
}

Engine::~Engine() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(queue_mutex_);
      stop_ = true;
    }
    work_.notify_all();
    transport_->notify_self();
    thread_.join();
  }
}

Track& Engine::track_for(const Call& call) {
  if (call.verb == Verb::send_recv) {
    const int direction = call.peer == call.root ? size() : 0;
    return *tracks_[static_cast<std::size_t>(kTracks + direction + call.peer)];
  }
  return *tracks_[next_collective_++ % kTracks];
}

void Engine::require_alive() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(error_mutex_);
  throw Error(ErrorCode::aborted, "this communicator failed earlier: " + error_);
}

void Engine::run(const Call& call) {
  require_alive();
  Track& track = track_for(call);
  if (track.queued.load(std::memory_order_acquire) != 0) drain(track);
  track.start(call);
  Waiter waiter(*transport_, options_.timeout);
  const auto failed = [&] { return track.mismatched_peer() >= 0 || transport_->failure().has_value(); };
  const Waiter::Outcome outcome = waiter.until_finished([&] { return track.advance(); }, failed);
  if (outcome != Waiter::Outcome::finished) throw fail(call, track, outcome);
  last_algorithm_ = track.algorithm();
}

std::shared_ptr<Pending> Engine::submit(const Call& call) {
  require_alive();
  auto pending = std::make_shared<Pending>();
  pending->engine = this;
  pending->call = call;
  pending->track = &track_for(call);
  {
    const std::lock_guard lock(queue_mutex_);
    pending->track->queue.push_back(pending);
    pending->track->queued.fetch_add(1, std::memory_order_release);
    ++queued_;
    if (!thread_.joinable()) thread_ = std::thread([this] { progress_loop(); });
  }
  work_.notify_one();
  transport_->notify_self();
  return pending;
}

bool Engine::test(Pending& pending) {
  if (!pending.ended()) {
    if (const std::unique_lock lock(progress_, std::try_to_lock); lock.owns_lock()) progress_queues();
  }
  if (pending.state.load(std::memory_order_acquire) == Pending::State::failed) std::rethrow_exception(pending.error);
  return pending.ended();
}

// The caller takes the work over from the progress thread for as long as it waits.
void Engine::wait(Pending& pending, std::chrono::nanoseconds timeout) {
  if (!pending.ended()) {
    {
      const std::lock_guard lock(queue_mutex_);
      ++waiting_callers_;
    }
    transport_->notify_self();  // the progress thread may sleep with the work in its hands
    Waiter waiter(*transport_, timeout);
    Waiter::Outcome outcome;
    {
      const std::lock_guard driving(progress_);
      outcome = waiter.until_finished(
          [&] {
            const Advance advance = progress_queues();
            return pending.ended() ? Advance::finished : advance == Advance::finished ? Advance::moved : advance;
          },
          [&] { return pending.track->mismatched_peer() >= 0 || transport_->failure().has_value(); });
      if (outcome != Waiter::Outcome::finished) fail_queues(fail(pending.call, *pending.track, outcome));
    }
    {
      const std::lock_guard lock(queue_mutex_);
      --waiting_callers_;
    }
    work_.notify_one();
  }
  if (pending.state.load(std::memory_order_acquire) == Pending::State::failed) std::rethrow_exception(pending.error);
}

// Finishes the async calls that a blocking call has to follow on its track.
void Engine::drain(Track& track) {
  for (;;) {
    std::shared_ptr<Pending> last;
    {
      const std::lock_guard lock(queue_mutex_);
      if (track.queue.empty()) return;
      last = track.queue.back();
    }
    wait(*last, options_.timeout);
  }
}

// Takes every queue's first call as far as it goes. Called with progress_ held.
Advance Engine::progress_queues() {
  Advance overall = Advance::stuck;
  bool any = false;
  for (const auto& track : tracks_) {
    if (track->queued.load(std::memory_order_acquire) == 0) continue;
    any = true;
    if (progress_queue(*track) != Advance::stuck) overall = Advance::moved;
  }
  return any ? overall : Advance::finished;
}

Advance Engine::progress_queue(Track& track) {
  std::shared_ptr<Pending> first;
  {
    const std::lock_guard lock(queue_mutex_);
    if (track.queue.empty()) return Advance::stuck;
    first = track.queue.front();
  }
  if (first->state.load(std::memory_order_relaxed) == Pending::State::queued) {
    track.start(first->call);
    first->state.store(Pending::State::running, std::memory_order_relaxed);
  }
  const Advance advance = track.advance();
  if (advance != Advance::finished) return advance;
  {
    const std::lock_guard lock(queue_mutex_);
    track.queue.pop_front();
    --queued_;
  }
  track.queued.fetch_sub(1, std::memory_order_release);
  first->state.store(Pending::State::finished, std::memory_order_release);
  return Advance::moved;
}

void Engine::progress_loop() {
  std::unique_lock lock(queue_mutex_);
  while (!stop_) {
    if (queued_ == 0 || waiting_callers_ > 0) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    // One stretch of work: until the queues are empty, a caller takes over, or nothing moves for a while.
    Waiter waiter(*transport_, options_.timeout);
    {
      const std::lock_guard driving(progress_);
      Track* stuck = nullptr;
      const auto look = [&] {
        {
          const std::lock_guard guard(queue_mutex_);
          if (stop_ || queued_ == 0 || waiting_callers_ > 0) return Advance::finished;
        }
        return progress_queues();
      };
      const auto failed = [&] {
        for (const auto& track : tracks_) {
          if (track->queued.load(std::memory_order_acquire) == 0) continue;
          stuck = track.get();
          if (track->mismatched_peer() >= 0) return true;
        }
        return transport_->failure().has_value();
      };
      const Waiter::Outcome outcome = waiter.until_finished(look, failed);
      if (outcome != Waiter::Outcome::finished && stuck != nullptr) fail_queues(fail(stuck->call(), *stuck, outcome));
    }
    lock.lock();
  }
}

Error Engine::fail(const Call& call, Track& track, Waiter::Outcome outcome) {
  const std::string mine = "rank " + std::to_string(rank()) + ", " + call.describe() + ": ";
  int peer = -1;
  ErrorCode code = ErrorCode::timeout;
  std::string message;
  const std::string where = track.stuck_at(&peer);
  if (const int other = track.mismatched_peer(); other >= 0) {
    code = ErrorCode::mismatch;
    peer = other;
    message = mine + "rank " + std::to_string(other) +
              " made another call at this point; all ranks must make the same calls in the same order";
  } else if (const auto failure = transport_->failure(); outcome == Waiter::Outcome::failed && failure) {
    code = ErrorCode::peer_lost;
    peer = failure->rank;
    message = mine + "rank " + std::to_string(peer) + (failure->died ? " has ended" : " gave up after an error") +
              " (" + where + ")";
  } else {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout).count();
    message = mine + where + ", without any movement for " + std::to_string(ms) + " ms; is rank " +
              std::to_string(peer) + " in the same call? Options::timeout sets the deadline";
  }
  {
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = message;
  }
  aborted_.store(true, std::memory_order_release);
  transport_->abort(peer);
  return {code, message, peer};
}

void Engine::fail_queues(const Error& error) {
  const std::lock_guard lock(queue_mutex_);
  for (const auto& track : tracks_) {
    for (const auto& pending : track->queue) {
      pending->error = std::make_exception_ptr(error);
      pending->state.store(Pending::State::failed, std::memory_order_release);
    }
    queued_ -= static_cast<int>(track->queue.size());
    track->queued.fetch_sub(static_cast<std::uint32_t>(track->queue.size()), std::memory_order_release);
    track->queue.clear();
  }
}

std::shared_ptr<void> Engine::allocate(std::size_t bytes) {
  require_alive();
  return transport_->allocate(bytes, Deadline::after(options_.timeout));
}

}  // namespace tutti::engine
