// Calls that know no deadline (those of PMIx) made to keep one.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/thread.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

// Runs `call` on a thread of its own and returns its result or throws what it threw. Where that takes longer than the
// deadline allows, throws Error(timeout) with `complaint` and leaves the thread behind: `call` must own all it uses.
template <class Result>
Result within(const Deadline& deadline, const std::string& complaint, std::function<Result()> call) {
  std::packaged_task<Result()> task(std::move(call));
  std::future<Result> result = task.get_future();
  std::thread thread = make_thread("for a call that must end in time", std::move(task));
  if (result.wait_for(deadline.left()) == std::future_status::ready) {
    thread.join();
    return result.get();
  }
  thread.detach();
  throw Error(ErrorCode::timeout, complaint);
}

}  // namespace tutti::rendezvous
