// Costs that groups of this process choose and predict by, from a file of the test's own.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "topology/discover/cost_file.h"

namespace tutti::testing {

// Where groups of this process look for their costs while it lives.
class CostFile {
 public:
  CostFile() : path_(std::filesystem::temp_directory_path() / ("tutti-test-costs-" + std::to_string(::getpid()))) {
    ::setenv("TUTTI_COSTS", path_.c_str(), 1);
  }
  CostFile(const CostFile&) = delete;
  CostFile& operator=(const CostFile&) = delete;
  ~CostFile() {
    ::unsetenv("TUTTI_COSTS");
    std::filesystem::remove(path_);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The costs that they take.
class Costs : CostFile {
 public:
  explicit Costs(const topology::CostTable& costs) { std::ofstream(path()) << topology::to_text(costs); }
};

}  // namespace tutti::testing
