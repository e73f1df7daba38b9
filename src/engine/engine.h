// The engine of one communicator: checks and numbers each call, and gives it a track. Runs blocking calls on the
// caller's thread, and hands async ones to AsyncCalls; what goes wrong Explainer puts into words, and FirstError keeps.
//
// Collective calls take the tracks in turn, so that kTracks of them are in flight at once; calls that find their track
// busy wait in its queue, in order. Messages between two ranks go through the mailbox, any number at once.
//
// Threads: one caller thread at a time, for the communicator and its Works; any thread may abort(). A blocking call is
// driven by its caller alone: its track, or the mailbox, has no async calls then, and only the caller adds any. Who
// drives those is the matter of AsyncCalls.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/home_process.h"
#include "base/log.h"
#include "device/driver.h"
#include "device/held_streams.h"
#include "device/staging.h"
#include "engine/async/async_calls.h"
#include "engine/call.h"
#include "engine/call_counter.h"
#include "engine/execute/plans.h"
#include "engine/execute/track.h"
#include "engine/failures/explainer.h"
#include "engine/failures/first_error.h"
#include "engine/groups/origin.h"
#include "engine/messages/mailbox.h"
#include "engine/request.h"
#include "engine/request_cache.h"
#include "engine/staged_buffers.h"
#include "engine/tracing/call_records.h"
#include "tutti/communicator.h"

namespace tutti::engine {

// A message of the library's own, which no receive of the caller's takes: both ends name the same tag.
struct Letter {
  Direction direction = Direction::send;
  int peer = -1;
  void* bytes = nullptr;  // of a send: only read
  std::size_t count = 0;
  bool patient = false;  // waits for twice the timeout, for a peer that itself waits for others
};

class Engine final {
 public:
  // Collective tracks; the transport must have one channel more, for messages between two ranks.
  static constexpr int kTracks = kCollectiveChannels;
  static constexpr int kChannels = kTracks + 1;  // one for messages
  // Of an edge, for one program, where a group spans hosts: what goes on inside them and across has its own order.
  static constexpr int kPerChannel = 2;
  // Between two processes, for all parts of calls.
  static constexpr int kDataLinks = transport::kMostCallParts * kChannels * kPerChannel;
  // Calls of fewer have no steps in traces: to record them would take longer than they do.
  static constexpr std::uint64_t kFewestBytesWithSteps = 4 << 10;

  Engine(std::unique_ptr<transport::Transport> transport, Options options, Log log, Origin origin);

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  // False in a child that a rank forked: sockets and shared memory are the rank's, and its threads are not there.
  bool in_own_process() const { return home_.is_here(); }
  // Throws Error(invalid_argument) there: at every entry, because peers would take the child for the rank.
  void require_own_process() const {
    if (!in_own_process()) throw_forked();
  }
  std::string_view last_algorithm() const { return last_algorithm_; }
  const Options& options() const { return options_; }
  const Origin& origin() const { return origin_; }
  const transport::Transport& transport() const { return *transport_; }
  // A rank of the group that is gone or gave up. Makes system calls.
  std::optional<Failure> failure() { return transport_->failure(); }
  // By rank: the ranks of these in the group that this one was made of; empty where it was made of none.
  const std::vector<int>& parent_ranks() const { return parent_ranks_; }
  void set_parent_ranks(std::vector<int> ranks) { parent_ranks_ = std::move(ranks); }

  // Collective, before the first call: all ranks take rank 0's costs to choose by. Whatever the timeout of calls, so
  // long is waited for a rank that has to read or measure first.
  static constexpr std::chrono::milliseconds kPatienceToBegin = std::chrono::seconds(10);
  void agree_on(choice::AgreedCosts costs);
  // The same where all ranks have them already.
  void adopt(const choice::AgreedCosts& costs);
  const choice::AgreedCosts& costs() const { return costs_; }
  const choice::Chooser& chooser() const { return chooser_; }
  // How many programs were verified before they ran: Options::verify.
  std::size_t verified_programs() const { return plans_.verified(); }
  // More ranks than cores.
  bool crowded() const { return transport_->oversubscribed(); }

  Tracer& tracer() const { return *origin_.tracer; }

  // `row`: the algorithm to run, all ranks alike; nullptr = choose.
  Received run(const Request& request, const schedule::Algorithm* row = nullptr);
  // A collective of the library's own, which is not counted.
  void run_own(const Request& request);
  // A send and a receive at once.
  Received exchange(const Request& sent, const Request& received, const schedule::Algorithm* row = nullptr);
  Received probe(int source, int tag, const Element& element);
  // The same without waiting.
  std::optional<Received> iprobe(int source, int tag, const Element& element);
  // Carries all of them at once, and returns when all have arrived. Tags are 0 .. kMostLetterTag.
  void carry(std::span<const Letter> letters, int tag);
  std::shared_ptr<Pending> submit(const Request& request);
  // All of them are checked before any is submitted.
  std::vector<std::shared_ptr<Pending>> submit_all(std::span<const Request> requests);
  // What becomes of those that were submitted.
  AsyncCalls& async_calls() { return async_; }
  // By any thread: calls under way and those to come fail.
  void abort();
  // engine_prediction.cc: seconds that a call is expected to take, if the other ranks' buffers are like this rank's. 0:
  // they lie on a device whose rates are not known.
  double predict(const Request& request) const;
  double predict(const Request& sent, const Request& received) const;
  std::shared_ptr<void> allocate(std::size_t bytes);
  // engine_device.cc: memory of a device, which all ranks that share it have opened. Fails on all ranks or on none.
  std::shared_ptr<void> allocate_device(std::size_t bytes, int device);
  // For calls that name none, from now on. `holds`: async calls hold it until they have ended.
  void set_stream(void* stream, bool holds) {
    stream_ = stream;
    holds_stream_ = holds;
  }
  void* stream() const { return stream_; }
  Counters counters() const { return counter_.read(); }
  void time_calls() { counter_.set_timed(true); }
  // Calls on device memory that can be launched are, whatever is predicted: to find out what they take.
  void launch_always(bool always) { launches_always_ = always; }
  // For the calls that follow.
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const { return options_.timeout; }
  // Once this communicator has failed: throws why, if the caller does not know yet, and Error(aborted) afterwards.
  void require_alive() { first_error_.require_none(); }

 private:
  void bring(const ScheduleFile& file);
  double predict_in_host(Call call, const UnevenChunks& chunks) const;
  // The call checked, as one that nothing has been done about yet.
  std::shared_ptr<Pending> make_pending(const Request& request);
  // Whether an async call has what comes into a stream of the caller's later wait for it.
  bool holds_stream(const Request& request) const {
    return request.stream != nullptr || (stream_ != nullptr && holds_stream_);
  }
  void enqueue(std::span<const Request> requests, std::span<const std::shared_ptr<Pending>> calls);
  // The one that the next collective runs on.
  Track& next_track() { return *tracks_[next_collective_ % kTracks]; }
  // Has host memory stand in for buffers on a device; nullptr: there are none. A call that its caller waits for may do
  // without, and an async one, if it is made while no stream is held: of others the progress thread would have to
  // launch, and may find another thread waiting inside the driver. Ranks that are threads make calls of both kinds at
  // once, because one that is about to hold a stream would wait for a call that counts on the very rank: theirs are not
  // counted as loose.
  enum class Waits : std::uint8_t { caller, nobody, nobody_loose };
  // Whether ranks of one host rather launch the call than stage it. What several devices do nobody has measured. All
  // ranks find the same, but for the call by which they learn that they have several: if one stages it, all do.
  bool prefers_launch(const Call& call) const {
    const transport::DeviceCard* const card = transport_->device_card(0, 0);
    if (card == nullptr) return false;
    return launches_always_ || card->devices.load(std::memory_order_relaxed) > 1 ||
           !chooser_.is_staged(call.verb, call.moved_bytes);
  }
  device::StagingPool::Handle stage(Call& call, UnevenChunks& chunks, const Request& request, Waits waits) {
    const device::Driver* const driver = device::driver();
    if (driver == nullptr) [[likely]]
      return nullptr;
    return stage_buffers(
        staging_, *driver, call, chunks, view_,
        {.stream = request.stream == nullptr ? stream_ : request.stream,
         .holds = holds_stream(request),
         .may_launch = waits != Waits::nobody && prefers_launch(call) && !device::HeldStreams::of_process().any_held(),
         .background = waits != Waits::caller,
         .parts = parts_of(*transport_, call),
         .loose = waits == Waits::nobody_loose && !transport_->has_peer_in_process()});
  }
  // Gives the call, which goes to next_track(), what must be read in the order of the calls.
  void admit(Call& call);
  // Where the call's buffers lie, if its algorithm may depend on it.
  void locate(Call& call) const;
  // Runs the track's draft to its end.
  void drive(Track& track);
  template <class Watch>
  void drive(Track& track, Watch&& watch);
  struct Recorders {
    std::uint64_t id = 0;                        // of the recorder
    std::array<trace::GroupRecorder, 2> groups;  // of calls without their steps, and with them
  };
  const Recorders& find_recorders(trace::Recorder& recorder);
  // What records a call of so many bytes; nullptr: nothing is recorded of it.
  const trace::GroupRecorder* recorder_of(std::uint64_t bytes) {
    trace::Recorder* const recorder = origin_.tracer->recorder();
    if (recorder == nullptr) [[likely]]
      return nullptr;
    if (own_call_) return nullptr;
    if (recorders_ == nullptr || recorders_->id != recorder->id()) [[unlikely]]
      recorders_ = &find_recorders(*recorder);
    return &recorders_->groups[bytes >= kFewestBytesWithSteps ? 1 : 0];
  }
  void drive_recorded(Track& track);
  void meet_to_allocate(std::size_t bytes);
  // engine_device.cc: says once for each verb which way its calls on device memory take, and once why a launch that
  // this rank tried for all ranks cannot be.
  void tell_way(const Track& track);
  // How many ranks of this host are lower than this one.
  int place_on_host() const;
  void admit_message(Call& call);

  // Throws Error where the two are not what exchange() takes.
  static void require_exchange(const Request& sent, const Request& received);
  // engine_messages.cc: messages. Blocking ones run on the caller's thread until all of them have ended.
  Received run_message(const Request& request, const schedule::Algorithm* row);
  // Both say how long the caller had to wait, as Waiter::waited().
  std::chrono::nanoseconds run_messages(std::span<Message> messages);
  template <class Watch>
  std::chrono::nanoseconds run_messages(std::span<Message> messages, Watch&& watch);
  Call call_of_probe(int source, int tag, const Element& element);
  void look_alone(Message& probe);
  void look_beside_others(Message& probe);
  template <class Watch>
  std::chrono::nanoseconds run_beside_others(std::span<Message> messages, Watch&& watch);
  // The first blocking send whose receiver waits in a collective, and is going to for ever: this rank has not made that
  // one, and will not before the send ends.
  Stuck find_crossed(std::span<const Message> messages) const;
  // While the caller waits in a collective and no message is under way, none can be received: said for senders.
  void tell_waiting(const Track& track);

  // engine_failure.cc
  [[noreturn]] static void throw_forked();
  // A rank gave up while this one was in no call: said before the call at hand touches anything. `known`: what is known
  // of it already.
  [[noreturn]] void refuse(const Call& call, std::optional<Failure> known = {});

  HomeProcess home_;
  std::unique_ptr<transport::Transport> transport_;
  Options options_;
  Log log_;
  Origin origin_;
  std::vector<int> parent_ranks_;
  GroupView view_;
  device::StagingPool staging_;
  void* stream_ = nullptr;                    // of calls that name none
  bool holds_stream_ = true;                  // until async ones have ended
  bool own_call_ = false;                     // of the library's: neither counted nor recorded
  std::array<std::uint32_t, 3> told_ways_{};  // by way, a bit for each verb
  std::string told_why_not_;
  RequestCache request_cache_;
  UnevenChunks chunks_;                                // of the blocking call at hand
  std::vector<std::unique_ptr<choice::Given>> given_;  // schedules that the caller brought
  Plans plans_;
  choice::Chooser chooser_;
  choice::AgreedCosts costs_;
  std::vector<std::unique_ptr<Track>> tracks_;
  Mailbox mailbox_;
  Deadline next_judgement_ = Deadline::after(std::chrono::seconds(0));  // when iprobe() looks for failures again
  std::uint64_t next_collective_ = 0;
  std::uint64_t chain_ = 0;  // fingerprint of the last collective
  std::string_view last_algorithm_;
  CallCounter counter_;  // the caller's thread counts
  bool launches_always_ = false;
  std::deque<Recorders> all_recorders_;   // so far: calls that are under way may have earlier ones
  const Recorders* recorders_ = nullptr;  // the last of them
  CallRecords records_, async_records_;

  FirstError first_error_;
  Explainer explainer_;
  AsyncCalls async_;  // last, so that it goes first: it needs all of the above until its thread is out of it
};

inline void Engine::locate(Call& call) const {
  call.symmetric_memory_exists = transport_->has_allocations();
  const bool locatable = chooser_.may_enter(call.verb, call.in_place);
  if (call.symmetric_memory_exists && locatable) {
    if (call.input != nullptr) call.input_ref = transport_->locate(call.input, call.input_bytes);
    if (call.output != nullptr) call.output_ref = transport_->locate(call.output, call.output_bytes);
  }
}

}  // namespace tutti::engine
