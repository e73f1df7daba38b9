#include "engine/engine.h"

#include <algorithm>
#include <optional>

#include "device/held_streams.h"
#include "engine/execute/waiter.h"
#include "engine/tracing/tracer.h"

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

// A blocking call that may have buffers on a device, or is timed.
struct Attended {
  Attended(device::StagingPool::Handle stage, CallCounter& counter, Verb verb)
      : staging(std::move(stage)), timed(counter, verb) {
    if (staging != nullptr && staging->is_deferred()) staging->enter(current);
  }

  device::StagingPool::Handle staging;
  std::optional<device::Current> current;  // once, for all that a launch asks of the driver
  TimedBlockingCall timed;
};

// Waits of a blocking call: the last of them ends no later than the call.
template <class Ask>
class RecordedCall : public WaitRecord<Ask> {
 public:
  RecordedCall(const Track& track, Ask ask) : WaitRecord<Ask>(*track.call().recorder, std::move(ask)), track_(track) {}

  void over() { WaitRecord<Ask>::over(track_.ended_at()); }

 private:
  const Track& track_;
};

}  // namespace

Engine::Engine(std::unique_ptr<transport::Transport> transport, Options options, Log log, Origin origin)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      log_(log),
      origin_(std::move(origin)),
      staging_([this] { transport_->notify_self(); }, transport_->oversubscribed()),
      plans_(*transport_, kChannels, options_.verify),
      chooser_(transport_->size(), transport_->offers(),
               choice::forced_algorithms(options_.algorithm, options_.deterministic), options_.deterministic),
      mailbox_(*transport_, plans_, chooser_, kTracks),
      records_(*transport_, chooser_, options_.check == Check::full),
      async_records_(*transport_, chooser_, options_.check == Check::full),
      explainer_(*transport_, mailbox_, first_error_, origin_.silence, [this] { return async_.owns_mailbox(); }),
      async_({*transport_, tracks_, mailbox_, explainer_, first_error_, counter_, *origin_.threads, async_records_,
              staging_}) {
  set_timeout(options_.timeout);
  for (const ScheduleFile& file : *origin_.schedules) bring(file);
  const bool full = options_.check == Check::full;
  chain_ = chooser_.options_hash() << 1 | (full ? 1 : 0);
  view_ = {rank(), size(), most_own_bytes(transport_->offers(), size())};
  for (int track = 0; track < kTracks; ++track)
    tracks_.push_back(std::make_unique<Track>(*transport_, plans_, chooser_, track, full, *origin_.part_threads));
}

// Groups that were made of others may be of another size: there the verb is as without the schedule.
void Engine::bring(const ScheduleFile& file) {
  if (static_cast<int>(file.programs.size()) != size()) return;
  given_.push_back(std::make_unique<choice::Given>(fitted(file, options_, transport_->offers())));
  choice::Given& given = *given_.back();
  given.row.name = given.name;
  plans_.give(given);
  chooser_.give(given);
}

// A broadcast of its own kind, which comes before the first call and is not counted. Rank 0 may have read a file, or
// measured this machine, for longer than the user's calls may take.
void Engine::agree_on(choice::AgreedCosts costs) {
  static_assert(std::is_trivially_copyable_v<choice::AgreedCosts>);
  if (size() > 1) {
    const std::chrono::milliseconds timeout = this->timeout();
    set_timeout(std::max(timeout, kPatienceToBegin));
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
  chooser_.on_priced([this](Verb verb, bool across) {
    for (const choice::Choice& choice : chooser_.choices_of(verb, across)) log_.info(choice.words());
  });
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
  if (track.queued.load(std::memory_order_acquire) != 0) async_.drain(track);
  Call& call = track.draft();
  request_cache_.call_of(request, view_, chunks_, call);
  call.row = row;
  call.recorder = recorder_of(call.moved_bytes);
  const std::uint64_t entered = call.recorder == nullptr ? 0 : call.recorder->recorder->now();
  std::optional<Attended> attended;
  if (device::driver() != nullptr || counter_.timed()) [[unlikely]]
    attended.emplace(stage(call, chunks_, request, Waits::caller), counter_, call.verb);
  admit(call);
  counter_.count(call.verb, call.counted_bytes());
  drive(track);
  last_algorithm_ = track.algorithm();
  if (call.recorder != nullptr) [[unlikely]]
    records_.record(*call.recorder, call, track.done_by(), {entered, entered, track.ended_at()}, false);
  if (attended && attended->staging != nullptr) [[unlikely]]
    tell_way(track);
  return {};
}

void Engine::run_own(const Request& request) {
  const VerbCounters before = counter_.read()[request.verb];
  const bool timed = counter_.set_timed(false);
  own_call_ = true;
  run(request);  // what fails here is the end of this communicator
  own_call_ = false;
  counter_.put_back(request.verb, before);
  counter_.set_timed(timed);
}

void Engine::drive(Track& track) {
  if (track.call().recorder == nullptr) [[likely]]
    return drive(track, Unwatched());
  drive_recorded(track);
}

template <class Watch>
void Engine::drive(Track& track, Watch&& watch) {
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
    finished = waiter.until_finished(look, hopeless, watch) == Waiter::Outcome::finished;
  } catch (const std::exception& error) {
    track.withdraw();
    throw async_.fail_from_caller(error, track);
  }
  if (!finished) {
    track.withdraw();
    throw async_.fail_from_caller(Stuck{&track});
  }
  if (!counter_.timed()) counter_.add_wait(track.call().verb, waiter.waited());
}

void Engine::drive_recorded(Track& track) {
  drive(track, RecordedCall(track, [&] { return AwaitedNow{track.blocked(), track.call().sequence}; }));
}

const Engine::Recorders& Engine::find_recorders(trace::Recorder& recorder) {
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank) members.push_back(tracer().rank_in_trace(origin_.job_rank(rank)));
  const std::uint64_t id = origin_.number == 0 ? tracer().id() : mix(tracer().id(), origin_.number) >> 16;
  const std::uint16_t number = recorder.add_communicator(id, members);
  return all_recorders_.emplace_back(
      Recorders{recorder.id(), {{{&recorder, number, false}, {&recorder, number, true}}}});
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
  enqueue({&request, 1}, {&pending, 1});
  return pending;
}

std::vector<std::shared_ptr<Pending>> Engine::submit_all(std::span<const Request> requests) {
  require_alive();
  std::vector<std::shared_ptr<Pending>> calls;
  calls.reserve(requests.size());
  for (const Request& request : requests) calls.push_back(make_pending(request));
  if (!calls.empty()) enqueue(requests, calls);
  return calls;
}

void Engine::enqueue(std::span<const Request> requests, std::span<const std::shared_ptr<Pending>> calls) {
  const device::LooseCalls loose(
      device::driver() != nullptr &&
      std::ranges::none_of(requests, [this](const Request& request) { return holds_stream(request); }));
  const Waits waits = loose.granted() ? Waits::nobody_loose : Waits::nobody;
  for (std::size_t i = 0; i < calls.size(); ++i)
    calls[i]->staging = stage(calls[i]->call, calls[i]->chunks, requests[i], waits);
  async_.join_thread();
  const auto chain = [&](auto&& step) {
    for (const auto& pending : calls) {
      if (pending->staging != nullptr && !loose.granted()) step(*pending);
    }
  };
  chain([](Pending& pending) { pending.staging->prepare_chain(pending.call.is_message()); });
  chain([&](Pending& pending) { pending.staging->chain_output(Deadline::after(options_.timeout)); });
  for (const auto& pending : calls) {
    Call& call = pending->call;
    if (call.is_message()) {
      admit_message(call);
      pending->message = Message(call, pending.get());
    } else {
      pending->track = &next_track();
      admit(call);
    }
    counter_.count(call.verb, call.counted_bytes());
    if (counter_.timed()) pending->began = counter_.begin();
    call.recorder = recorder_of(call.moved_bytes);
    if (call.recorder != nullptr) pending->times.entered = call.recorder->recorder->now();
  }
  async_.enqueue(calls);
}

// A call like others, numbered and stated: where it ends, all ranks are about to allocate as many bytes.
void Engine::meet_to_allocate(std::size_t bytes) {
  Track& track = next_track();
  if (track.queued.load(std::memory_order_acquire) != 0) async_.drain(track);
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
    throw async_.fail_from_caller(error);
  } catch (const std::exception& error) {
    throw async_.fail_from_caller(Error(ErrorCode::system, std::string("allocate: ") + error.what()));
  }
}

}  // namespace tutti::engine
