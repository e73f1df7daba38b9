// A plan as one page that needs nothing else: bars of a step and of memory, the timeline of buckets, the sentence.
#pragma once

#include <string>

#include "plan/search.h"

namespace tutti::tools {

std::string page_of(const plan::JobPlan& plan, const plan::JobVerdict& verdict);

}  // namespace tutti::tools
