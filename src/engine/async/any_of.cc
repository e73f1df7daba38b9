// Waiting for the first of several calls.
//
// Calls of one communicator are driven by the caller, as when it waits for one of them. Where there are several
// communicators no thread can sleep for all of their transports: their progress threads drive them, and the caller
// sleeps until one of them says that a call has ended.
#include <algorithm>

#include "base/interrupt.h"
#include "engine/async/event.h"
#include "engine/engine.h"
#include "tutti/work.h"

namespace tutti {

class AnyOf {
 public:
  explicit AnyOf(std::span<Work* const> works) {
    for (Work* const work : works) {
      if (work == nullptr || !work->valid()) continue;
      any_ = true;
      if (work->ended()) ended_ = true;
      pending_.push_back(work->pending_.get());
      engines_.push_back(work->engine_.get());
    }
  }

  bool any() const { return any_; }

  // False when the deadline passes first.
  bool wait(const Deadline& deadline) {
    if (ended_) return true;
    for (const engine::Engine* const engine : engines_) engine->require_own_process();
    const bool one = std::all_of(engines_.begin(), engines_.end(), [&](auto* it) { return it == engines_.front(); });
    return one ? engines_.front()->async_calls().wait_any(pending_, deadline) : wait_for_event(deadline);
  }

 private:
  // Has the calls ring an event for as long as it lives.
  class Listening {
   public:
    Listening(AnyOf& calls, engine::Event& event) : calls_(&calls) {
      for (std::size_t i = 0; i < calls.pending_.size(); ++i) {
        if (!calls.engines_[i]->async_calls().ring_at_end(*calls.pending_[i], &event)) event.ring();
      }
    }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;
    ~Listening() {
      for (std::size_t i = 0; i < calls_->pending_.size(); ++i)
        calls_->engines_[i]->async_calls().ring_at_end(*calls_->pending_[i], nullptr);
    }

   private:
    AnyOf* calls_;
  };

  bool wait_for_event(const Deadline& deadline) {
    engine::Event event;
    const Listening listening(*this, event);
    // All of them are this rank's, and so is its trace: the first that it records stands for them.
    const auto recorded =
        std::ranges::find_if(pending_, [](const auto* pending) { return pending->call.recorder != nullptr; });
    const engine::Pending& told = recorded == pending_.end() ? *pending_.front() : **recorded;
    // A receive gets its number from the message that it takes, on the progress thread.
    const engine::RecordedWork work(told.call.recorder, told.call.is_message() ? 0 : told.call.sequence);
    while (!event.wait(std::min<std::chrono::nanoseconds>(deadline.left(), kAskedEvery))) {
      if (deadline.passed()) return false;
      throw_if_interrupted();
    }
    return true;
  }

  std::vector<engine::Pending*> pending_;
  std::vector<engine::Engine*> engines_;  // of each of them
  bool any_ = false, ended_ = false;
};

namespace {

std::vector<Work*> pointers_to(std::span<Work> works) {
  std::vector<Work*> pointers;
  for (Work& work : works) pointers.push_back(&work);
  return pointers;
}

std::optional<std::size_t> first_ended(std::span<Work> works) {
  const auto first = std::find_if(works.begin(), works.end(), [](const Work& it) { return it.valid() && it.ended(); });
  if (first == works.end()) return std::nullopt;
  first->wait();  // which says what it failed with
  return first - works.begin();
}

}  // namespace

bool await_any(std::span<Work* const> works, std::chrono::milliseconds timeout) {
  AnyOf calls(works);
  if (!calls.any()) return false;
  if (calls.wait(Deadline::after(timeout))) return true;
  throw Error(ErrorCode::timeout, "none of the calls that were waited for had ended when the time given had passed");
}

std::optional<std::size_t> wait_any(std::span<Work> works, std::chrono::milliseconds timeout) {
  await_any(pointers_to(works), timeout);
  return first_ended(works);
}

std::optional<std::size_t> test_any(std::span<Work> works) {
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].valid() && works[i].test()) return i;
  }
  return std::nullopt;
}

std::vector<std::size_t> wait_some(std::span<Work> works, std::chrono::milliseconds timeout) {
  std::vector<std::size_t> ended;
  await_any(pointers_to(works), timeout);
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].valid() && works[i].ended()) ended.push_back(i);
  }
  for (const std::size_t i : ended) works[i].wait();  // which says what it failed with
  return ended;
}

}  // namespace tutti
