// Several groups of ranks on one simulated cluster, each with a collective of its own, all at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/offers.h"
#include "schedule/lower.h"

namespace tutti::schedule {

// What a simulated cluster offers to programs: messages that a reduction works in, whatever links they take.
Offers offers_to_simulate(const Hosts& hosts, std::uint64_t segment_bytes);

// The programs of one group, as those of ranks of the whole cluster: indices become absolute, and it offers the same to
// all, however a group lies on hosts. `devices`: where each rank of the group is in `all`.
void put_group(std::span<const Lowered> group, std::span<const int> devices, const Offers& offers,
               std::vector<Lowered>& all);

}  // namespace tutti::schedule
