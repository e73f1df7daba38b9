// Buffers of a call that lie on a device: host memory takes their place in the call, and a staging moves what they hold
// between the two (device/staging.h).
#pragma once

#include "device/driver.h"
#include "device/staging.h"
#include "engine/call.h"
#include "engine/request.h"

namespace tutti::engine {

struct StageManner {
  void* stream = nullptr;  // the caller's
  bool holds = true;       // it is held until an async call has ended
  bool may_launch =
      false;  // a call that one launch can do for all ranks keeps its buffers, and its staging is deferred
  bool background = false;  // nobody waits for the call yet
  int parts = 1;            // that the call goes in
  bool loose = false;       // an async call that holds no stream, while none is held (device/held_streams.h)
};

// nullptr where no buffer of the call is on a device. Starts to bring the input over, once the stream has done what it
// holds. The displacements of a v-verb become those in host memory.
device::StagingPool::Handle stage_buffers(device::StagingPool& pool, const device::Driver& driver, Call& call,
                                          UnevenChunks& chunks, const GroupView& group, const StageManner& manner);

}  // namespace tutti::engine
