// The generators, one for each row of the table: ring_all_reduce(placement) and so on.
#pragma once

#include "schedule/algorithms/table.h"

namespace tutti::schedule {

#define ALGORITHM(verb, name, ...) Program name##_##verb(const Placement& placement);
#include "schedule/algorithms/algorithms.def"
#undef ALGORITHM

}  // namespace tutti::schedule
