// tutti --version: which Tutti this is, and what it was built with.
#include <fmt/format.h>

#include "tools/verbs.h"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

// "with" what the build found; TUTTI_BUILT_* are set by CMake.
std::string text() {
  std::string text = fmt::format("tutti {}\n", tutti_version());
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("for", TUTTI_BUILT_FOR);
  line("compiler", TUTTI_BUILT_BY);
  line("build", TUTTI_BUILT_AS);
  line("sanitizers", TUTTI_BUILT_SANITIZERS);
  line("with", TUTTI_BUILT_WITH);
  line("without", TUTTI_BUILT_WITHOUT);
  return text;
}

}  // namespace

void add_version(CLI::App& app) {
  app.set_version_flag("--version", text(), "Which version, and what it was built with");
}

}  // namespace tutti::tools
