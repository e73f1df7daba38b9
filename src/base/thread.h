// Threads of the library's own, or an Error that says why there is none.
#pragma once

#include <pthread.h>

#include <csignal>
#include <functional>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "tutti/error.h"

namespace tutti {

// `what_for` as in "to watch the other ranks".
template <class Body>
std::thread make_thread(const std::string& what_for, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::system, "the system gave this process no thread " + what_for + " (" +
                                       error.code().message() +
                                       "); raise the limit of processes (`ulimit -u`, pids.max of the container), or "
                                       "start fewer of them");
  }
}

// A thread that stands by: made while the lack of one can still be told to others, and given its work later. No signal
// comes to it. Used by one thread at a time.
class StandbyThread {
 public:
  explicit StandbyThread(const std::string& what_for) {
    // Inherited: signals are for the program's own threads.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = make_thread(what_for, [work = work_.get_future()]() mutable {
        if (const std::function<void()> given = work.get()) given();
      });
    } catch (const Error&) {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  StandbyThread(const StandbyThread&) = delete;
  StandbyThread& operator=(const StandbyThread&) = delete;
  // Waits for the end of its work.
  ~StandbyThread() {
    if (!given_) work_.set_value({});
    thread_.join();
  }

  // Once.
  void run(std::function<void()> work) {
    given_ = true;
    work_.set_value(std::move(work));
  }

 private:
  std::promise<std::function<void()>> work_;
  std::thread thread_;
  bool given_ = false;
};

}  // namespace tutti
