// How a row of the table is lowered: the same for the engine that runs it and for all who prove, price or draw it.
#pragma once

#include <string>
#include <vector>

#include "base/offers.h"
#include "schedule/algorithms/table.h"
#include "schedule/lower.h"

namespace tutti::schedule {

// What programs of `row` are lowered to, where the transport offers `offers`.
Offers offers_for(const Algorithm& row, const Offers& offers);

// Whether its programs cannot wait for each other's credits for ever: see Algorithm::credits.
bool has_credits_for(const Algorithm& row, const Offers& offers);

// Why the row cannot run over `offers`, or empty.
std::string why_not(const Algorithm& row, const Placement& placement, const Offers& offers);

// Throws Error(unsupported) with the words of why_not.
Lowered lower(const Algorithm& row, const Placement& placement, const Offers& offers);

// Of ranks 0 to ranks - 1, which share hosts where they share memory.
std::vector<Lowered> lower_all(const Algorithm& row, int ranks, const Offers& offers, int root = 0);

}  // namespace tutti::schedule
