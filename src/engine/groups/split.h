// Groups made of the ranks of a group: what Communicator::split, subgroup and duplicate come down to.
//
//   all ranks     -- what each wants: color and key -->  all ranks      everyone knows every group
//   first ranks   -- the number of each group, and its place in the memory of each host -->  all ranks
//   each group    meets there (group_meeting.h)
//   all ranks     -- what became of it -->  all ranks                   so it fails everywhere or nowhere
//
// The arrows are all_gathers of the parent, so the parent finds who is dead or makes another call. A meeting gets half
// of the parent's timeout, because ranks of other groups wait for its end within a whole one.
#pragma once

#include <memory>
#include <span>

#include "engine/engine.h"

namespace tutti::engine {

// nullptr where the group leaves this rank out.
std::unique_ptr<Engine> split(Engine& parent, int color, int key);
std::unique_ptr<Engine> subgroup(Engine& parent, std::span<const int> ranks);
std::unique_ptr<Engine> duplicate(Engine& parent);

}  // namespace tutti::engine
