// Programs written by hand, correct ones that no algorithm resembles: what makes them safe the algorithms do not use.
#pragma once

#include <vector>

#include "schedule/lower.h"

namespace tutti::schedule {

// Broadcast from rank 0 to rank 1: block 0 as a message, block 1 stored into rank 1's scratch, `depth` segments deep.
// Nothing but the credits keeps rank 0 from storing the next segment too early: with c credits it needs c <= depth.
// Rank 1 sets the stored block aside, because its output must be intact until the message has come.
std::vector<Lowered> ordered_by_credits(int depth, std::uint32_t credits);

// Broadcast from rank 0 to rank 1, stored right into rank 1's output: a message says that rank 1 has entered, another
// that the output is complete.
std::vector<Lowered> ordered_by_messages();

}  // namespace tutti::schedule
