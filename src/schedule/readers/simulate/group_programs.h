// Several groups of ranks on one simulated cluster, each with a collective of its own, all at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/offers.h"
#include "schedule/lower.h"
#include "schedule/program.h"

namespace tutti::schedule {

// What a simulated cluster offers to programs: messages that a reduction works in, whatever links they take.
Offers offers_to_simulate(const Hosts& hosts, std::uint64_t segment_bytes);

// The segments that calls of so many bytes (of the vector, or of all chunks) are cut into where nobody says: 4 MB, in
// which trees flow well; of long vectors a 64th, because more would take memory and tell nothing more; and 128 KB for
// each step that a lane takes with a segment, or the latency of steps would be all that a ring of many ranks takes.
std::uint64_t segment_bytes_to_simulate(const Program& program, std::uint64_t bytes);

// The programs of one group, as those of ranks of the whole cluster: indices become absolute, and it offers the same to
// all, however a group lies on hosts. `devices`: where each rank of the group is in `all`.
void put_group(std::span<const Lowered> group, std::span<const int> devices, const Offers& offers,
               std::vector<Lowered>& all);

}  // namespace tutti::schedule
