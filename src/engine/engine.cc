#include "engine/engine.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// Offsets into symmetric memory have 48 bits.
constexpr std::size_t kMostAllocated = std::size_t{1} << 47;

// An element that is reduced moves whole, a block of a message at least, and every rank's must fit a slot.
std::size_t most_own_bytes(const Offers& offers, int ranks) {
  constexpr std::size_t kMost = 32 << 10;
  const std::size_t slot = offers.slot_bytes() == 0 ? kMost : std::min<std::size_t>(offers.slot_bytes(), kMost);
  return std::max<std::size_t>(schedule::kLineBytes, slot / static_cast<std::size_t>(ranks));
}

// Of a v-variant whose counts not all ranks know, those that this one does.
std::uint64_t bytes_to_count(const Call& call) {
  return call.uneven ? std::max({call.moved_bytes, call.input_bytes, call.output_bytes}) : call.moved_bytes;
}

}  // namespace

Engine::Engine(std::unique_ptr<transport::Transport> transport, Options options, Log log, Origin origin)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      log_(log),
      origin_(std::move(origin)),
      plans_(*transport_, kTracks + 1),
      chooser_(transport_->size(), transport_->offers(),
               choice::forced_algorithms(options_.algorithm, options_.deterministic), options_.deterministic),
      mailbox_(*transport_, plans_, chooser_, kTracks),
      explainer_(*transport_, mailbox_, first_error_, origin_.again.silence, [this] { return owns_mailbox(); }) {
  set_timeout(options_.timeout);
  const bool full = options_.check == Check::full;
  chain_ = chooser_.options_hash() << 1 | (full ? 1 : 0);
  view_ = {rank(), size(), most_own_bytes(transport_->offers(), size())};
  for (int track = 0; track < kTracks; ++track)
    tracks_.push_back(std::make_unique<Track>(*transport_, plans_, chooser_, track, full));
}

// A broadcast of its own kind, which comes before the first call and is not counted. Rank 0 may have read a file, or
// measured this machine, for longer than the user's calls may take.
void Engine::agree_on(choice::AgreedCosts costs) {
  static_assert(std::is_trivially_copyable_v<choice::AgreedCosts>);
  constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(10);
  if (size() > 1) {
    const std::chrono::milliseconds timeout = this->timeout();
    set_timeout(std::max(timeout, kPatience));
    const std::uint64_t chain = std::exchange(chain_, 0);
    next_collective_ = Call::kUnnumbered;
    run_own({.verb = Verb::broadcast,
             .input = &costs,
             .output = &costs,
             .input_count = sizeof costs,
             .output_count = sizeof costs,
             .element = DType::uint8});
    chain_ = chain;
    set_timeout(timeout);
  }
  adopt(costs);
}

void Engine::adopt(const choice::AgreedCosts& costs) {
  costs_ = costs;
  chooser_.set_costs(costs, origin_.size_tables);
  if (!log_.says(Log::Level::info) || rank() != 0) return;  // all ranks choose alike
  for (const choice::Choice& choice : chooser_.choices()) {
    log_.info(std::string(name_of(choice.verb)) +
              (choice.bytes == choice::kAnyBytes ? "" : " up to " + std::to_string(choice.bytes) + " bytes") + ": " +
              std::string(choice.algorithm) + " (" + std::string(choice.why) + ")");
  }
}

Engine::~Engine() {
  thread_.reset();  // which returns when nobody drives the queues any more
  if (queued_ != 0) {
    // The peers of these calls must not wait for a rank that is gone, nor their Works for an engine that is.
    transport_->abort(-1, ErrorCode::aborted);
    fail_queues(Error(ErrorCode::aborted, "the communicator was destroyed before this call ended"), nullptr);
  }
}

void Engine::set_timeout(std::chrono::milliseconds timeout) {
  if (timeout <= std::chrono::milliseconds(0)) {
    throw Error(ErrorCode::invalid_argument,
                "a timeout is longer than nothing, not " + std::to_string(timeout.count()) + " ms");
  }
  options_.timeout = std::min<std::chrono::milliseconds>(timeout, Deadline::kForever);
}

void Engine::admit(Call& call) {
  // Who fell out has done its part of the agreement that comes before all calls; a slow rank may finish its own.
  if (transport_->given_up() && next_collective_ != Call::kUnnumbered) refuse(call);
  call.timeout = options_.timeout;
  locate(call);
  call.sequence = next_collective_++;
  call.fingerprint = chain_ = fingerprint_of(call.statement(), chain_);
}

Received Engine::run(const Request& request, const schedule::Algorithm* row) {
  if (request.verb == Verb::send_recv) return run_message(request, row);
  require_alive();
  Track& track = next_track();
  if (track.queued.load(std::memory_order_acquire) != 0) drain(track);
  Call& call = track.draft();
  request_cache_.call_of(request, view_, chunks_, call);
  call.row = row;
  admit(call);
  counter_.count(call.verb, bytes_to_count(call));
  drive(track);
  last_algorithm_ = track.algorithm();
  return {};
}

void Engine::run_own(const Request& request) {
  const VerbCounters before = counter_.read()[request.verb];
  run(request);
  counter_.put_back(request.verb, before);
}

void Engine::drive(Track& track) {
  Waiter waiter(*transport_);
  bool finished = false;
  try {
    track.start();
    const auto look = [&] { return track.advance(); };
    const auto hopeless = [&] {
      if (first_error_.aborted_here() || track.hopeless()) return true;
      if (track.announced()) tell_waiting(track);
      return false;
    };
    finished = waiter.until_finished(look, hopeless) == Waiter::Outcome::finished;
  } catch (const std::exception& error) {
    throw fail_from_caller(error, track);
  }
  if (!finished) throw fail_from_caller(Stuck{&track});
  counter_.add_wait(track.call().verb, waiter.waited());
}

std::shared_ptr<Pending> Engine::make_pending(const Request& request) {
  auto pending = std::make_shared<Pending>();
  pending->call = call_of(request, view_, pending->chunks);
  pending->own = request.op.own();
  pending->told = first_error_.told();
  return pending;
}

std::shared_ptr<Pending> Engine::submit(const Request& request) {
  require_alive();
  const std::shared_ptr<Pending> pending = make_pending(request);
  enqueue({&pending, 1});
  return pending;
}

std::vector<std::shared_ptr<Pending>> Engine::submit_all(std::span<const Request> requests) {
  require_alive();
  std::vector<std::shared_ptr<Pending>> calls;
  calls.reserve(requests.size());
  for (const Request& request : requests) calls.push_back(make_pending(request));
  if (!calls.empty()) enqueue(calls);
  return calls;
}

void Engine::join_thread() {
  if (thread_) return;
  runtime::Driven& queues = *this;
  thread_ = std::make_unique<runtime::ProgressThread::Place>(origin_.threads->of(*transport_), queues, *transport_);
}

void Engine::enqueue(std::span<const std::shared_ptr<Pending>> calls) {
  join_thread();  // before the calls get their numbers: a call that has one must be made
  for (const auto& pending : calls) {
    Call& call = pending->call;
    if (call.is_message()) {
      admit_message(call);
      pending->message = Message(call, pending.get());
    } else {
      pending->track = &next_track();
      admit(call);
    }
    counter_.count(call.verb, bytes_to_count(call));
  }
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
  transport_->notify_self();
}

bool Engine::test(Pending& pending) {
  if (!pending.ended()) {
    if (const std::unique_lock lock(progress_, std::try_to_lock); lock.owns_lock()) progress_queues();
  }
  return pending.ended();
}

void Engine::wait(Pending& pending) { wait_until(pending, {}); }

Engine::Seat::Seat(Engine& engine) : engine_(&engine) {
  {
    const std::lock_guard lock(engine.queue_mutex_);
    ++engine.waiting_callers_;
    if (engine.thread_) engine.thread_->take_back();
  }
  driving_ = std::unique_lock(engine.progress_);
}

Engine::Seat::~Seat() {
  driving_.unlock();
  const std::lock_guard lock(engine_->queue_mutex_);
  if (--engine_->waiting_callers_ == 0 && engine_->queued_ != 0) engine_->thread_->want();
}

void Engine::wait_until(Pending& pending, const Deadline& deadline) {
  const Seat seat(*this);
  Stuck stuck;
  const auto look = [&] {
    const Advance advance = progress_queues();
    return pending.ended() ? Advance::finished : advance;
  };
  const auto hopeless = [&] { return (stuck = find_stuck()).any(); };
  Waiter waiter(*transport_, deadline);
  const Waiter::Outcome outcome = waiter.until_finished(look, hopeless);
  counter_.add_wait(pending.call.verb, waiter.waited());
  if (outcome == Waiter::Outcome::hopeless) fail(stuck);
  if (outcome == Waiter::Outcome::timed_out) {
    throw Error(ErrorCode::timeout, "rank " + std::to_string(rank()) + ", " + pending.call.describe() +
                                        ": still under way when the time given to wait() had passed");
  }
}

bool Engine::wait_any(std::span<Pending* const> calls, const Deadline& deadline) {
  const auto any_ended = [&] {
    return std::any_of(calls.begin(), calls.end(), [](const Pending* call) { return call->ended(); });
  };
  const Seat seat(*this);
  if (any_ended()) return true;
  Stuck stuck;
  const auto look = [&] {
    const Advance advance = progress_queues();
    return advance != Advance::stuck && any_ended() ? Advance::finished : advance;
  };
  const auto hopeless = [&] { return (stuck = find_stuck()).any(); };
  Waiter waiter(*transport_, deadline);
  const Waiter::Outcome outcome = waiter.until_finished(look, hopeless);
  counter_.add_wait(calls.front()->call.verb, waiter.waited());
  if (outcome == Waiter::Outcome::hopeless) fail(stuck);
  return outcome != Waiter::Outcome::timed_out;
}

bool Engine::ring_at_end(Pending& pending, Event* event) {
  const std::lock_guard lock(queue_mutex_);
  pending.awaited_by = event;
  return !pending.ended();
}

// Finishes the async calls that a blocking call has to follow on its track. Before the call gets its number: a program
// that is interrupted here has not made it.
void Engine::drain(Track& track) {
  for (;;) {
    std::shared_ptr<Pending> last;
    {
      const std::lock_guard lock(queue_mutex_);
      if (track.queue.empty()) break;
      last = track.queue.back();
    }
    wait(*last);
  }
  require_alive();
}

// Takes every queue's first call as far as it goes. Called with progress_ held.
Advance Engine::progress_queues() {
  Advance overall = Advance::stuck;
  for (const auto& track : tracks_) {
    if (track->queued.load(std::memory_order_acquire) == 0) continue;
    if (progress_queue(*track) != Advance::stuck) overall = Advance::moved;
  }
  if (message_count_.load(std::memory_order_acquire) != 0 && progress_messages() != Advance::stuck)
    overall = Advance::moved;
  return overall;
}

Advance Engine::progress_queue(Track& track) {
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
      track.start();
      first->state.store(Pending::State::running, std::memory_order_relaxed);
    }
    advance = track.advance();
  } catch (const std::exception& error) {
    fail(error, track);
    return Advance::moved;
  }
  if (advance != Advance::finished) return advance;
  {
    const std::lock_guard lock(queue_mutex_);
    track.queue.pop_front();
    --queued_;
    track.queued.fetch_sub(1, std::memory_order_release);
    end(*first, Pending::State::finished);
  }
  return Advance::moved;
}

runtime::Driven::Progress Engine::drive_queues(bool judges) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (queued_ == 0) return Progress::idle;
  }
  const std::unique_lock driving(progress_, std::try_to_lock);
  if (!driving.owns_lock()) return Progress::stuck;
  if (progress_queues() != Advance::stuck) return Progress::moved;
  if (!judges) return Progress::stuck;
  const Stuck stuck = find_stuck();
  if (!stuck.any()) return Progress::stuck;
  // What peers published before they failed or left counts: only what is still missing now will never come.
  if (progress_queues() == Advance::stuck) fail(stuck);
  return Progress::moved;
}

Stuck Engine::find_stuck() {
  for (const auto& track : tracks_) {
    {
      const std::lock_guard lock(queue_mutex_);
      if (track->queue.empty()) continue;
      if (track->queue.front()->state.load(std::memory_order_relaxed) != Pending::State::running) continue;
    }
    if (first_error_.aborted_here() || track->hopeless()) return {track.get(), nullptr};
  }
  if (message_count_.load(std::memory_order_acquire) == 0) return {};
  if (first_error_.aborted_here()) {
    const std::lock_guard lock(queue_mutex_);
    return {nullptr, messages_.empty() ? nullptr : &messages_.front()->message};
  }
  return {nullptr, mailbox_.find_hopeless()};
}

// A call like others, numbered and stated: where it ends, all ranks are about to allocate as many bytes.
void Engine::meet_to_allocate(std::size_t bytes) {
  Track& track = next_track();
  if (track.queued.load(std::memory_order_acquire) != 0) drain(track);
  Call& call = track.draft();
  call = call_of({.verb = Verb::barrier}, view_, chunks_);
  call.kinds = Statement::kinds_of_allocation();
  call.elements = bytes;
  admit(call);
  drive(track);
}

// A rank that got no memory and one that did would number later allocations differently, so a failure is final.
std::shared_ptr<void> Engine::allocate(std::size_t bytes) {
  require_alive();
  if (bytes > kMostAllocated) {
    throw Error(ErrorCode::invalid_argument, "allocate: " + std::to_string(bytes) + " bytes are more than the " +
                                                 std::to_string(kMostAllocated) + " that a rank can share");
  }
  meet_to_allocate(bytes);
  try {
    return transport_->allocate(bytes, Deadline::after(options_.timeout));
  } catch (const Error& error) {
    throw fail_from_caller(error);
  } catch (const std::exception& error) {
    throw fail_from_caller(Error(ErrorCode::system, std::string("allocate: ") + error.what()));
  }
}

}  // namespace tutti::engine
