// What the system tells of a process, or of a thread.
#pragma once

#include <fstream>
#include <string>

namespace tutti::testing {

// `task` as /proc names it: "17", or "self/task/17". 'S': it sleeps; 'T': it is stopped; 'Z': it has ended, and nobody
// has asked for that yet; '?': nothing is left of it.
inline char state_of(const std::string& task) {
  std::ifstream file("/proc/" + task + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // "17 (name) S ..."
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}
inline char state_of(int process) { return state_of(std::to_string(process)); }

}  // namespace tutti::testing
