// A few figures over one that grows, as a picture: a line for each, both axes logarithmic, and a level that they may
// cross. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct ChartLine {
  std::string name;
  std::vector<double> values;  // by place; what is not above 0 is left out
  bool dashed = false;
};

struct Chart {
  std::string title, across, upwards;  // what the axes are, in words
  std::vector<double> places;          // ascending, above 0
  std::vector<ChartLine> lines;
  struct Level {
    double value = 1;
    std::string name;
  };
  std::optional<Level> level = {};
};

// SVG.
std::string picture_of(const Chart& chart);

}  // namespace tutti::tools
