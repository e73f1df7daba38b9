// Traces of tests/golden/trace, and others that tests write themselves.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tools/trace/tutti_trace.h"

namespace tutti::analysis {

inline constexpr double kNear = 1e-6;

inline std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(TUTTI_SOURCE_DIRECTORY) + "/tests/golden/trace/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline TracedJob read(const std::string& text) { return tutti_trace(EventFile(text), "run.json"); }
inline TracedJob three_ranks() { return read(golden_text("three_ranks.json")); }

}  // namespace tutti::analysis
