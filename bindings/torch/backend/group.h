// A group of ranks as PyTorch uses it: one communicator of the core, calls from any thread, and the calls under way.
//
// The core wants one thread at a time to start calls; calls_ sees to that, and is held while a blocking call runs.
// Works under way are driven by one waiting thread at a time (the driver), by the core's own thread otherwise; the core
// says through Group::ended() when one has ended, so that the others that wait only sleep. changed_mutex_ is never held
// while the core is called: the core calls ended() with a lock of its own held.
//
// Futures and copies to outputs that the core could not write itself are completed by one thread, which is started for
// the first of them; another one is started only where all that there are run callbacks of futures, which may wait for
// further futures.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "backend/errors.h"
#include "tutti/tutti.h"

namespace tutti::pytorch {

class Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Milliseconds = std::chrono::milliseconds;

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string name;  // the same on all ranks
  Milliseconds timeout{0};
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  // Meets the other ranks through the store.
  static std::shared_ptr<Group> meet(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options);
  // A group of the same ranks, whose calls are not mixed with those of this one: collective.
  std::shared_ptr<Group> duplicate(const std::string& name);
  ~Group();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // What Python sees as backend.options: its timeout is what calls have that bring none, whoever wrote it last.
  const c10::intrusive_ptr<c10d::Backend::Options>& options() const { return options_; }
  Milliseconds timeout() const { return std::atomic_ref(options_->timeout).load(std::memory_order_relaxed); }
  void set_timeout(Milliseconds timeout);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Whether a blocking call may run on the caller's thread: nothing else is under way that it might have to wait for.
  bool quiet() const { return open_.load(std::memory_order_acquire) == 0; }
  // Calls call(comm) on this thread, alone; throws where the group is gone. No timeout means the group's.
  template <class Call>
  void enter(Milliseconds timeout, Call&& call) {
    const std::lock_guard lock(calls_);
    prepare(timeout);
    call(comm_);
  }

  // The work is under way: keeps it until it has been settled, ended or not. Called inside enter(), for every work.
  void keep(const WorkPtr& work);
  // Returns when the work has ended, or throws when the time has passed (none: the core's deadline alone counts).
  void await(Work& work, Milliseconds timeout);
  // The work was settled: it is kept no longer.
  void release(Work& work);
  // The completion thread is to settle the work once it has ended.
  void complete_later(Work& work);
  // Around the callbacks of a future.
  void enter_callbacks();
  void leave_callbacks();
  // The core's word that a handle of the work has ended.
  static void ended(void* work);

  // Returns when no work is under way.
  void await_all();

  // Leaves the group. Works under way get a moment to end; then, and at once where `now` is set, they fail.
  void leave(bool now);
  // By any thread: calls under way fail soon, and later ones at once.
  void abort();
  // A call could not be started.
  [[noreturn]] void fail_to_start(tutti_code code);
  void note_failure() { failed_.store(true, std::memory_order_relaxed); }

  // Whether `tutti tune` measured the costs that algorithms are chosen by.
  bool tuned();

  // What was called so far, and waited for. Who waits for a future nobody tells; but what was taken as one during a
  // backward pass DDP waits for at its end, and counts as waited for from there on.
  tutti_mark mark();
  void took_future();

  // Symmetric memory, which lives as long as what is returned: collective.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // Leaves all groups that are left at the end of the program.
  static void leave_all();

 private:
  friend class Work;
  explicit Group(const GroupOptions& options);
  // The communicator is there: sees to its timeout, and that it is left at the end of the program.
  void begin();
  void prepare(Milliseconds timeout);
  void require_usable() const;
  void sweep();
  void settle_all();
  void settle_loop();
  // changed_mutex_ is held.
  void hand_over(Work& work);
  void start_thread();
  void stop_completions();

  const int rank_, size_;
  const std::string name_;
  const c10::intrusive_ptr<c10d::Backend::Options> options_;
  std::atomic<bool> failed_{false};
  int forks_;  // of this process when the group was made

  std::mutex calls_;  // whoever holds it may start calls
  tutti_comm comm_ = nullptr;
  Milliseconds set_timeout_{0};  // what the core was told last; guarded by calls_

  std::atomic<int> open_{0};        // works that have not ended
  std::atomic<int> kept_count_{0};  // of kept_
  std::mutex changed_mutex_;        // guards what follows, and the state of works
  std::condition_variable changed_;
  bool driving_ = false;  // a thread waits in the core
  bool leaving_ = false;
  bool left_ = false;
  std::list<WorkPtr> kept_;
  std::deque<WorkPtr> completions_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
  std::size_t in_callbacks_ = 0;  // of the threads
  bool marked_ = false;           // somebody wants to know what is waited for
  int watched_pass_ = -1;         // backward pass whose end begins the waiting
  std::optional<std::chrono::steady_clock::time_point> futures_awaited_since_;
  tutti_trace_wait traced_wait_{};  // the same, where it is recorded
  std::array<std::chrono::steady_clock::duration, TUTTI_VERBS> waited_for_futures_{};
};

}  // namespace tutti::pytorch
