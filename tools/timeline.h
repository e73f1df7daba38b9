// A simulated call as a picture: ranks over time, what each did, and the critical path through it. Pure.
#pragma once

#include <string>

#include "schedule/readers/simulate/simulate.h"

namespace tutti::tools {

// SVG. Of the ranks whose activities were kept.
std::string timeline_of(const schedule::Simulated& simulated, const std::string& title);

}  // namespace tutti::tools
