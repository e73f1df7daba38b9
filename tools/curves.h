// Times over sizes as a picture: a line for each algorithm, both axes logarithmic, the quickest of each size marked.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tools {

struct Curve {
  std::string name;
  std::vector<double> seconds;  // by size
};

// SVG. `sizes`: in bytes, ascending.
std::string curves_of(const std::vector<std::uint64_t>& sizes, const std::vector<Curve>& curves,
                      const std::string& title);

}  // namespace tutti::tools
