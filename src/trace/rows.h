// Which row of its rank each slice goes to, so that slices of a row nest or follow each other.
#pragma once

#include "trace/job_trace.h"

namespace tutti::trace {

// Fills in JobTrace::rows and Slice::row; row 0 is what the program did.
void assign_rows(JobTrace& job);

}  // namespace tutti::trace
