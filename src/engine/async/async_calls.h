// The async calls of one communicator, from their queues to their ends: collectives wait in the queue of their track
// and run one after the other, messages go to the mailbox at once.
//
// Whoever holds *the right to drive* takes the calls further, ends them and fails them: a caller that waits has it by a
// Seat, a caller that tests takes it if it is free, and else the progress thread of the rank does, round by round. What
// a blocking call drives by itself, its track or the mailbox, has no async calls meanwhile and is none of it.
//
// Threads: the thread that makes the communicator's calls, one at a time, makes and destroys this, adds calls, drains,
// tests, waits and sits. drive() and drive_or_fail() are the progress thread's. has_messages(), on_end() and
// ring_at_end() are anybody's.
//
// - driving_ is the right to drive. Its holder alone takes calls out of the queues and lists, posts them to the
//   mailbox, starts and advances the tracks that have a queue, and changes the state of a call.
// - queue_mutex_ guards the tracks' queues, messages_, posted_, waiting_callers_, queued_, and what a call does at its
//   end (Pending::on_end, awaited_by). It is taken after driving_, never before it. Under it only the mutexes of the
//   progress thread, of Events and of the counter are taken, and on_end of calls is run, which must call nothing of the
//   communicator's.
// - Only the caller's thread adds. So what it finds empty, by Track::queued or has_messages(), stays so until it adds:
//   the track, or the mailbox, is its own, and blocking calls take neither mutex.
// - thread_ is made by the caller's thread before the first call is queued, and stays.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "device/staging.h"
#include "engine/async/event.h"
#include "engine/async/pending.h"
#include "engine/call_counter.h"
#include "engine/execute/operation.h"
#include "engine/execute/track.h"
#include "engine/failures/explainer.h"
#include "engine/failures/first_error.h"
#include "engine/messages/mailbox.h"
#include "engine/tracing/call_records.h"
#include "engine/tracing/wait_record.h"
#include "runtime/progress_thread.h"
#include "transport/transport.h"

namespace tutti::engine {

class AsyncCalls final : private runtime::Driven {
 public:
  // What the calls run on, and what is told of them; all of it is the communicator's.
  struct Surroundings {
    transport::Transport& transport;
    const std::vector<std::unique_ptr<Track>>& tracks;
    Mailbox& mailbox;
    Explainer& explainer;
    FirstError& first_error;
    CallCounter& counter;
    runtime::ProgressThreads& threads;
    CallRecords& records;  // whoever has the right to drive uses them
    device::StagingPool& staging;
  };

  // The right to drive, taken over from the progress thread for as long as this lives.
  class Seat {
   public:
    explicit Seat(AsyncCalls& calls);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    // Takes every queue's first call, and all messages, as far as they go.
    Advance progress() const { return calls_->progress(); }
    // Messages alone, those of a blocking call included.
    Advance progress_messages() const { return calls_->progress_messages(); }
    // Ends those that have ended in the mailbox.
    void finish_messages() const { calls_->finish_messages(); }
    // The first running call that is hopeless.
    Stuck find_stuck() const { return calls_->find_stuck(); }
    // Records why the communicator is lost, tells the peers, fails all async calls, and returns the error. Once it is
    // out, the buffers of these calls may go: that takes the right to drive, so that nobody is at work on them.
    Error fail(const Error& error) const { return calls_->fail(error); }
    Error fail(const Stuck& stuck) const { return calls_->fail(stuck); }

   private:
    AsyncCalls* calls_;
    std::unique_lock<std::mutex> driving_;
  };

  explicit AsyncCalls(const Surroundings& surroundings) : with_(surroundings) {}
  // Fails what is still under way.
  ~AsyncCalls() override;
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;

  // Makes sure that there is a progress thread, or throws: before calls get their numbers, because a call that has one
  // must be made.
  void join_thread();
  // Calls that are numbered, collectives with their track, messages as such.
  void enqueue(std::span<const std::shared_ptr<Pending>> calls);
  // Whether async messages are under way: then the mailbox takes the right to drive.
  bool has_messages() const { return message_count_.load(std::memory_order_acquire) != 0; }
  // Whether no other thread is at the mailbox while this one, which has the right to drive, looks at it.
  bool owns_mailbox() const;

  // Finishes the calls that a blocking one has to follow on its track. Throws where the communicator is lost then.
  void drain(Track& track);
  bool test(Pending& pending);
  void wait(Pending& pending) { wait_until(pending, {}); }
  // Throws Error(timeout) when the deadline passes first; the call goes on then.
  void wait_until(Pending& pending, const Deadline& deadline);
  // Waits until one of these calls has ended; false when the deadline passes first.
  bool wait_any(std::span<Pending* const> calls, const Deadline& deadline);
  // Rings the event when the call ends, which the progress thread sees to; nullptr: no more. False where it has ended.
  bool ring_at_end(Pending& pending, Event* event);
  // Has `ended` called when the call ends, at once where it has. See Work::on_end.
  void on_end(Pending& pending, std::function<void()> ended);

  // What Seat::fail() does, for a caller without a seat, who is about to throw it: of a blocking call that is stuck, or
  // what was thrown, while a track was driven or else.
  template <class... Cause>
  Error fail_from_caller(const Cause&... cause) {
    const Seat seat(*this);
    with_.first_error.tell();
    return fail(cause...);
  }

 private:
  // For the progress thread.
  Progress drive() override { return drive_queues(false); }
  Progress drive_or_fail() override { return drive_queues(true); }
  Progress drive_queues(bool judges);

  // With the right to drive:
  Advance progress();
  Advance progress_track(Track& track);
  Advance progress_messages();
  void finish_messages();
  Stuck find_stuck();
  // `spoken_of` is the async call that the error speaks of, or nullptr.
  Error fail(const Error& error, const Pending* spoken_of = nullptr);
  Error fail(const Stuck& stuck);
  // What was thrown while the track's call was driven.
  Error fail(const std::exception& thrown, const Track& track);
  // Nobody writes to buffers of calls that are about to fail.
  void withdraw_all();
  // The call spoken of fails with the error as it is; of the others it says what became of their output.
  void fail_all(const Error& error, const Pending* spoken_of);
  // What the call waits for.
  AwaitedNow awaited_by(const Pending& pending) const;
  // The one that runs on the track, or nullptr.
  const Pending* running_on(const Track& track);

  // With queue_mutex_ held: the call has ended.
  void end(Pending& pending, Pending::State state);

  Surroundings with_;
  std::mutex driving_;
  std::mutex queue_mutex_;
  std::vector<std::shared_ptr<Pending>> messages_;  // under way
  std::vector<Pending*> posted_;                    // those of them that the mailbox has yet to be told of
  std::atomic<std::uint32_t> message_count_{0};     // of messages_
  int waiting_callers_ = 0;                         // those with a Seat, or about to have one
  int queued_ = 0;                                  // all calls that have not ended
  std::unique_ptr<runtime::ProgressThread::Place> thread_;
};

}  // namespace tutti::engine
