// A communicator as Python holds it: one thread at a time, not in a forked child, not after close().
//
// Verbs run without the GIL and stop for Ctrl-C. What async calls need is kept until they have ended, also where their
// handle was dropped. After close() calls under way go on, and the group is left with the last of them. All members are
// used with the GIL held.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "tutti/communicator.h"
#include "tutti/interrupt.h"

namespace tutti::python {

// What an async call uses until it has ended.
struct Underway {
  Work work;
  std::vector<Buffer> buffers;
  Op op = ReduceOp::sum;
};

// Makes Ctrl-C stop the calls of this thread, where it is the one that Python's signal handlers run on.
class Interruptible {
 public:
  Interruptible();
  // The error that the handler raised, instead of the one at hand.
  static void rethrow_python_error();

 private:
  InterruptCheck check_;
};

// While it lives, a flag stops the calls of this thread: for ranks that are threads, whom no signal reaches.
class StoppedBy {
 public:
  explicit StoppedBy(const std::atomic<bool>& flag);
  StoppedBy(const StoppedBy&) = delete;
  StoppedBy& operator=(const StoppedBy&) = delete;
  ~StoppedBy();
};

// Runs what waits for others: without the GIL, and so that Ctrl-C stops it.
template <class Function>
auto without_gil(Function&& function) {
  try {
    const nb::gil_scoped_release released;
    const Interruptible interruptible;
    return std::forward<Function>(function)();
  } catch (const Error&) {
    Interruptible::rethrow_python_error();
    throw;
  }
}

class Group : public std::enable_shared_from_this<Group> {
 public:
  explicit Group(Communicator communicator);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  int rank() const;
  int size() const;
  bool closed() const { return closed_; }
  // Leaves the group; again is fine. Calls whose handle was dropped are waited for, and the first error is thrown.
  void close();
  // Leaves the group at once: what is under way fails.
  void give_up();

  // The communicator, for one call of this thread.
  class Turn {
   public:
    explicit Turn(Group& group, bool closed_too = false);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { group_->busy_ = false; }
    Communicator* operator->() const { return &group_->communicator_; }
    Communicator& operator*() const { return group_->communicator_; }

   private:
    Group* group_;
  };

  // Handles of calls under way: one more, and one less, because its call has ended.
  void add_handle() { ++handles_; }
  void end_handle();
  // An async call whose handle is gone: it goes on, and so do its buffers.
  void leave_behind(Underway underway);
  bool in_own_process() const;

 private:
  void require_own_process() const;
  void require_usable() const;
  void sweep();
  void leave_when_idle();
  void leave();

  Communicator communicator_;
  int forks_;  // of this process when it was made
  int rank_, size_;
  bool closed_ = false;
  bool busy_ = false;
  int handles_ = 0;  // of calls under way, as far as they know
  std::vector<Underway> left_behind_;
};

}  // namespace tutti::python
