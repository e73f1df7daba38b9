// The processor cores that the calling thread may use, and where measurements put ranks.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::topology {

// One set per core, in the order of their numbers: the core's hardware threads that the thread may run on.
std::vector<cpu_set_t> allowed_cores();

// The first hardware thread of each of them. Ranks that are timed run on one each, rank r on the r-th (mod their
// number), so that a measurement does not depend on where the system puts them.
std::vector<int> first_processors();

// Puts all threads that the process has now there; those that they start stay with them.
void pin_process(int processor);

}  // namespace tutti::topology
