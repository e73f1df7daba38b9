// The processor cores that the calling thread may use.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::topology {

// One set per core, in the order of their numbers: the core's hardware threads that the thread may run on.
std::vector<cpu_set_t> allowed_cores();

}  // namespace tutti::topology
