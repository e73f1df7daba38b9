// The programs of a JSON file, as `tutti show --json` writes them.
#pragma once

#include <string>
#include <vector>

#include "schedule/lower.h"

namespace tutti::tools {

// Of this file; - is standard input. Ends the command where it cannot be read or does not hold programs.
std::vector<schedule::Lowered> programs_of_file(const std::string& path);

}  // namespace tutti::tools
