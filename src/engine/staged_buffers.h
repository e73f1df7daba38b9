// Buffers of a call that lie on a device: host memory takes their place in the call, and a staging moves what they hold
// between the two (device/staging.h).
#pragma once

#include "device/driver.h"
#include "device/staging.h"
#include "engine/call.h"
#include "engine/request.h"

namespace tutti::engine {

// nullptr where no buffer of the call is on a device. Starts to bring the input over, once `stream` has done what it
// holds. The displacements of a v-verb become those in host memory. `may_launch`: a call that one launch can do for all
// ranks keeps its buffers, and its staging is deferred.
device::StagingPool::Handle stage_buffers(device::StagingPool& pool, const device::Driver& driver, Call& call,
                                          UnevenChunks& chunks, const GroupView& group, void* stream, bool may_launch);

}  // namespace tutti::engine
