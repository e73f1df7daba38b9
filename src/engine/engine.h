// The engine of one communicator: gives each call a track, runs blocking calls on the caller's thread and async calls
// on the progress thread of its rank, and turns what goes wrong into errors that name the culprit.
//
// Collective calls take the tracks in turn, so that kTracks of them are in flight at once; calls that find their track
// busy wait in its queue, in order. Messages between two ranks go through the mailbox, any number at once.
//
// Threads: one caller thread at a time, for the communicator and its Works. An async call is progressed by whoever
// holds progress_: a caller that waits for it, else the progress thread, which serves all communicators of the rank. A
// track is driven by its blocking caller only while its queue is empty, and the mailbox only while no async message is
// under way; only the caller adds to either.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/home_process.h"
#include "base/log.h"
#include "engine/call.h"
#include "engine/call_counter.h"
#include "engine/execute/event.h"
#include "engine/execute/plans.h"
#include "engine/execute/track.h"
#include "engine/execute/waiter.h"
#include "engine/failures/explainer.h"
#include "engine/failures/first_error.h"
#include "engine/groups/origin.h"
#include "engine/messages/mailbox.h"
#include "engine/request.h"
#include "engine/request_cache.h"
#include "tutti/communicator.h"

namespace tutti::engine {

// An async call, from submission to its end.
struct Pending {
  enum class State : std::uint8_t { queued, running, finished, failed };

  Track* track = nullptr;  // of a collective
  Call call;
  Message message;                      // the call as a message
  std::size_t place = 0;                // in the engine's list of messages
  UnevenChunks chunks;                  // the call's
  std::shared_ptr<const Operator> own;  // the call's
  Received received;
  std::atomic<State> state{State::queued};
  std::exception_ptr error;                 // written before state becomes failed
  std::shared_ptr<std::atomic<bool>> told;  // the engine's
  std::function<void()> on_end;             // guarded by the engine's queue_mutex_
  Event* awaited_by = nullptr;              // likewise; rung when it ends

  bool ended() const { return state.load(std::memory_order_acquire) >= State::finished; }
};

// A message of the library's own, which no receive of the caller's takes: both ends name the same tag.
struct Letter {
  Direction direction = Direction::send;
  int peer = -1;
  void* bytes = nullptr;  // of a send: only read
  std::size_t count = 0;
  bool patient = false;  // waits for twice the timeout, for a peer that itself waits for others
};

class Engine final : private runtime::Driven {
 public:
  // Collective tracks; the transport must have one channel more, for messages between two ranks.
  static constexpr int kTracks = kCollectiveChannels;

  Engine(std::unique_ptr<transport::Transport> transport, Options options, Log log, Origin origin);
  ~Engine() override;

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

  // Collective, before the first call: all ranks take rank 0's costs to choose by.
  void agree_on(choice::AgreedCosts costs);
  // The same where all ranks have them already.
  void adopt(const choice::AgreedCosts& costs);
  const choice::AgreedCosts& costs() const { return costs_; }
  const choice::Chooser& chooser() const { return chooser_; }
  // More ranks than cores.
  bool crowded() const { return transport_->oversubscribed(); }

  // Records the steps of collectives from now on; `communicator` is what traces of all ranks know it by. The recorder
  // lives as long as this engine or until another, or nullptr, takes its place. While no call is under way.
  void record_to(trace::Recorder* recorder, std::uint64_t communicator) {
    for (const auto& track : tracks_) track->record_to(recorder, communicator);
  }

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
  bool test(Pending& pending);
  void wait(Pending& pending);
  // Throws Error(timeout) when the deadline passes first; the call goes on then.
  void wait_until(Pending& pending, const Deadline& deadline);
  // Waits until one of these calls has ended; false when the deadline passes first.
  bool wait_any(std::span<Pending* const> calls, const Deadline& deadline);
  // Rings the event when the call ends, which the progress thread sees to; nullptr: no more. False where it has ended.
  bool ring_at_end(Pending& pending, Event* event);
  // engine_failure.cc: has `ended` called when the call ends, at once where it has. See Work::on_end.
  void on_end(Pending& pending, std::function<void()> ended);
  // By any thread: calls under way and those to come fail.
  void abort();
  // engine_prediction.cc: seconds that a call is expected to take, if the other ranks' buffers are like this rank's.
  double predict(const Request& request) const;
  double predict(const Request& sent, const Request& received) const;
  std::shared_ptr<void> allocate(std::size_t bytes);
  Counters counters() const { return counter_.read(); }
  // For the calls that follow.
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const { return options_.timeout; }
  // Once this communicator has failed: throws why, if the caller does not know yet, and Error(aborted) afterwards.
  void require_alive() { first_error_.require_none(); }

 private:
  // The caller takes the work over from the progress thread, for as long as this lives.
  class Seat {
   public:
    explicit Seat(Engine& engine);
    ~Seat();

   private:
    Engine* engine_;
    std::unique_lock<std::mutex> driving_;
  };

  // The call checked, as one that nothing has been done about yet.
  std::shared_ptr<Pending> make_pending(const Request& request);
  void enqueue(std::span<const std::shared_ptr<Pending>> calls);
  void join_thread();
  // The one that the next collective runs on.
  Track& next_track() { return *tracks_[next_collective_ % kTracks]; }
  // Gives the call, which goes to next_track(), what must be read in the order of the calls.
  void admit(Call& call);
  // Where the call's buffers lie, if its algorithm may depend on it.
  void locate(Call& call) const;
  // Runs the track's draft to its end.
  void drive(Track& track);
  void meet_to_allocate(std::size_t bytes);
  void admit_message(Call& call);
  void drain(Track& track);
  Advance progress_queues();
  Advance progress_queue(Track& track);
  // For the progress thread.
  Progress drive() override { return drive_queues(false); }
  Progress drive_or_fail() override { return drive_queues(true); }
  Progress drive_queues(bool judges);
  // The first running async call that is hopeless.
  Stuck find_stuck();

  // Throws Error where the two are not what exchange() takes.
  static void require_exchange(const Request& sent, const Request& received);
  // engine_messages.cc: messages. Blocking ones run on the caller's thread until all of them have ended.
  Received run_message(const Request& request, const schedule::Algorithm* row);
  // Both say how long the caller had to wait, as Waiter::waited().
  std::chrono::nanoseconds run_messages(std::span<Message> messages);
  Call call_of_probe(int source, int tag, const Element& element);
  void look_alone(Message& probe);
  void look_beside_others(Message& probe);
  std::chrono::nanoseconds run_beside_others(std::span<Message> messages);
  Advance progress_messages();
  void finish_messages();
  // The first blocking send whose receiver waits in a collective, and is going to for ever: this rank has not made that
  // one, and will not before the send ends.
  Stuck find_crossed(std::span<const Message> messages) const;
  // While the caller waits in a collective and no message is under way, none can be received: said for senders.
  void tell_waiting(const Track& track);

  // engine_failure.cc
  [[noreturn]] static void throw_forked();
  // Records why the communicator is lost, tells the peers, fails what is queued, and returns the error. Called with
  // progress_ held: once an error is out, the buffers of async calls may go, and nobody may be at work on them.
  // `spoken_of` is the async call that the error speaks of, or nullptr.
  Error fail(const Error& error, const Pending* spoken_of = nullptr);
  Error fail(const Stuck& stuck);
  // What was thrown while the track's call was driven.
  Error fail(const std::exception& thrown, const Track& track);
  Error fail_from_caller(const Error& error);
  Error fail_from_caller(const std::exception& thrown, const Track& track);
  Error fail_from_caller(const Stuck& stuck);
  // A rank gave up while this one was in no call: said before the call at hand touches anything. `known`: what is known
  // of it already.
  [[noreturn]] void refuse(const Call& call, std::optional<Failure> known = {});
  // Whether no other thread is at the mailbox while this one, which holds progress_, looks at it.
  bool owns_mailbox() const;
  // The async call that runs on the track, or nullptr. A caller may add to its queue meanwhile.
  const Pending* running_on(const Track& track);
  // The call spoken of fails with the error as it is; of the others it says what became of their output.
  void fail_queues(const Error& error, const Pending* spoken_of);
  // The call has ended; queue_mutex_ is held.
  static void end(Pending& pending, Pending::State state);

  HomeProcess home_;
  std::unique_ptr<transport::Transport> transport_;
  Options options_;
  Log log_;
  Origin origin_;
  std::vector<int> parent_ranks_;
  GroupView view_;
  RequestCache request_cache_;
  UnevenChunks chunks_;  // of the blocking call at hand
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

  FirstError first_error_;
  Explainer explainer_;

  std::mutex progress_;                             // whoever holds it drives the queues
  std::mutex queue_mutex_;                          // guards the tracks' queues and the two lists below
  std::vector<std::shared_ptr<Pending>> messages_;  // async, under way
  std::vector<Pending*> posted_;                    // those of them that the mailbox has yet to be told of
  std::atomic<std::uint32_t> message_count_{0};     // of messages_
  // Guarded by queue_mutex_:
  int waiting_callers_ = 0;
  int queued_ = 0;
  std::unique_ptr<runtime::ProgressThread::Place> thread_;  // made by the first async call
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
