// A trace that Tutti recorded (docs/trace.md) as a TracedJob. Pure.
#pragma once

#include <string>

#include "tools/trace/event_file.h"
#include "tools/trace/traced_job.h"

namespace tutti::analysis {

// `name` is the file's, for errors. Throws Error(invalid_argument) where it is no trace of a job.
TracedJob tutti_trace(const EventFile& file, const std::string& name);

// Throws Error(invalid_argument): `name` is no trace that can be read, and why.
[[noreturn]] void refuse_trace(const std::string& name, const std::string& why);

}  // namespace tutti::analysis
