// A trace as a picture: a bar for each rank over time, of computing, communication behind it, exposed, and waiting.
// Pure.
#pragma once

#include <string>

#include "tools/trace/traced_job.h"

namespace tutti::analysis {

// SVG.
std::string picture_of(const TracedJob& trace, const std::string& title);

}  // namespace tutti::analysis
