// Files that commands read, and the programs of one, as `tutti show --json` writes them.
#pragma once

#include <string>
#include <vector>

#include "schedule/lower.h"

namespace tutti::tools {

// What is in this file; - is standard input. Ends the command where it cannot be read.
std::string text_of_file(const std::string& path);

// Of this file; - is standard input. Ends the command where it cannot be read or does not hold programs.
std::vector<schedule::Lowered> programs_of_file(const std::string& path);

}  // namespace tutti::tools
