// Groups made by their members alone: what Communicator::create_group comes down to. Other ranks neither call nor hear
// of it; the members talk by messages that no receive of the callers' takes.
//
//   first member  -- is here -->  members          so that they do not blame it for one that it waits for itself
//   members       -- what each wants -->  first    the same list
//   first member  -- the number of the group -->  members, or why there is no group
//   first on each host  -- its place in memory -->  members there
//   all members   meet there (group_meeting.h)
//   members       -- what became of it -->  first  -- the gravest of it -->  members
//
// Whoever waits for the first member's answer is patient: that waits itself, and names the one that does not come.
#pragma once

#include <memory>
#include <span>

#include "engine/engine.h"

namespace tutti::engine {

std::unique_ptr<Engine> create_group(Engine& parent, std::span<const int> ranks, int tag);

}  // namespace tutti::engine
