// A trace told in one screen, and as JSON. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tools/trace/event_file.h"
#include "tools/trace/traced_job.h"

namespace tutti::analysis {

// `title` is the file's name. `call` (an index) is whose critical path is told.
std::string to_text(const TracedJob& trace, const std::string& title, std::optional<std::size_t> call);
Json to_json(const TracedJob& trace, std::optional<std::size_t> call);

}  // namespace tutti::analysis
