// The programs these tests read: every algorithm, lowered to a transport that offers everything, or only byte streams.
#pragma once

#include <vector>

#include "schedule/algorithms/table.h"
#include "schedule/lower.h"

namespace tutti::schedule {

Offers offers_everything();
Offers offers_streams();
// Both, by which host a rank is on: the first half of them, and the second.
Offers offers_on_two_hosts(int ranks);

// Whether the algorithm is made for this many ranks (a message has two).
bool takes(const Algorithm& algorithm, int ranks);

std::vector<Lowered> programs_of(const Algorithm& algorithm, int ranks, const Offers& offers, int root = 0);

}  // namespace tutti::schedule
