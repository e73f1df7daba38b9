// The processor cores that this process may use.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::tools {

// One set per core, in the order of their numbers: the core's hardware threads that this process may run on.
std::vector<cpu_set_t> allowed_cores();

}  // namespace tutti::tools
