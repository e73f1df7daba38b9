// Making one file of the rings that the ranks of a job left.
#pragma once

#include <string>

namespace tutti::tools {

// Before the ranks start: what an earlier run left is taken away. Throws Error where the file could not be written.
void clear_trace(const std::string& file);

// After the ranks of this host have ended, killed or not: merges what nobody has merged. Says what there is in the name
// of `verb`. `all_here`: no other host has ranks, so that nobody needs the rings any more. False where there is no
// trace.
bool finish_trace(const char* verb, const std::string& file, bool all_here);

// `tutti trace --merge`: `file` is the folder without .rings where it is empty. Returns the exit code.
int merge_trace(const std::string& folder, std::string file);

}  // namespace tutti::tools
