// Which async calls of this process hold streams of a device, and which count on none being held.
//
// A thread that frees memory waits inside the driver for all streams, and keeps everybody else from putting work into
// any. So of a call that holds a stream everything is put into streams when it is made. A *loose* call holds none, and
// puts work into streams as it goes. If both were under way, the loose one might wait for a thread inside the driver,
// which waits for a held stream, whose call has its turn after the loose one. So they are not: a call that is made
// while streams are held is not loose, and one that is about to hold a stream waits until no loose call is under way.
// A blocking call, which puts work into streams too, is not launched while streams are held: to load a kernel, or to
// close memory of another process, the driver may wait for them, and what ends their calls may come after this one.
// Calls that are made together are all loose or none is: else one of them would wait for another, which has not begun.
//
// Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/deadline.h"

namespace tutti::device {

class HeldStreams {
 public:
  // For all communicators of this process.
  static HeldStreams& of_process();

  // A call begins to be loose; false where streams are held, and it must not be.
  bool begin_loose();
  void end_loose();
  // A stream is about to be held. False where loose calls are still under way when the deadline passes.
  bool begin_hold(const Deadline& deadline);
  void end_hold();
  // For whoever would rather not wait for held streams; costs a load.
  bool any_held() const { return held_.load(std::memory_order_relaxed) > 0; }

 private:
  std::mutex mutex_;
  std::condition_variable none_loose_;
  int loose_ = 0;
  std::atomic<int> held_{0};  // changes under the lock
};

// While calls are made: whether they are loose, asked once for all of them. Until this goes no stream begins to be held
// where they are, so that each of them may begin.
class LooseCalls {
 public:
  explicit LooseCalls(bool wanted) : granted_(wanted && HeldStreams::of_process().begin_loose()) {}
  ~LooseCalls() {
    if (granted_) HeldStreams::of_process().end_loose();
  }
  LooseCalls(const LooseCalls&) = delete;
  LooseCalls& operator=(const LooseCalls&) = delete;

  bool granted() const { return granted_; }

 private:
  bool granted_;
};

}  // namespace tutti::device
