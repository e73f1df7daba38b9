// Built-in costs: surveys of real machines, which hold where nobody has measured yet.
#pragma once

#include "topology/rates.h"

namespace tutti::topology {

// Carried over to a machine of so many cores and these speeds (none known: as they were found).
CostTable built_in_costs(int cores, const Speeds& here);

}  // namespace tutti::topology
