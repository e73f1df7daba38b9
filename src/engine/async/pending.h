// An async call, from submission to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include "device/staging.h"
#include "engine/async/event.h"
#include "engine/call.h"
#include "engine/call_counter.h"
#include "engine/execute/track.h"
#include "engine/messages/message.h"
#include "engine/tracing/call_records.h"
#include "tutti/op.h"
#include "tutti/work.h"

namespace tutti::engine {

struct Pending {
  enum class State : std::uint8_t { queued, running, finished, failed };

  Track* track = nullptr;  // of a collective
  Call call;
  Message message;                      // the call as a message
  std::size_t place = 0;                // in the list of messages under way
  UnevenChunks chunks;                  // the call's
  std::shared_ptr<const Operator> own;  // the call's
  device::StagingPool::Handle staging;  // the call's, until it has ended
  Received received;                    // written before state becomes finished
  std::atomic<State> state{State::queued};
  std::exception_ptr error;                 // written before state becomes failed
  std::shared_ptr<std::atomic<bool>> told;  // FirstError's, which a Work may outlive
  CallCounter::Clock::time_point began;     // where calls are timed
  CallTimes times;                          // where calls are recorded
  // Guarded by the queue mutex of AsyncCalls:
  std::function<void()> on_end;
  Event* awaited_by = nullptr;  // rung when it ends

  bool ended() const { return state.load(std::memory_order_acquire) >= State::finished; }
};

}  // namespace tutti::engine
