// Sets of environment variables for tests: captured from real launchers, and changed one by one.
#pragma once

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace tutti::rendezvous {

using Values = std::map<std::string, std::string, std::less<>>;

// captured/<name>.txt: one NAME=value a line, # opens a comment.
inline Values captured(const std::string& name) {
  std::ifstream file(std::string(TUTTI_CAPTURED_DIRECTORY) + "/" + name + ".txt");
  if (!file) throw std::runtime_error("no captured set " + name);
  Values values;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

// With some of them changed; an empty value takes a variable away.
inline Values with(Values values, const Values& changes) {
  for (const auto& [name, value] : changes) values[name] = value;
  return values;
}

}  // namespace tutti::rendezvous
