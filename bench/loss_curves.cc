// Losses over steps, or over time, as a picture, for docs/fewer-bytes.md and docs/strategies.md: a line for each run.
//
//   loss_curves OUT.svg TITLE [--seconds] NAME=FILE...
//
// Files have a step and a loss a line, as `gpt --losses FILE` writes them, or for --seconds a time and a loss.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/formatted.h"
#include "tools/svg.h"

// How the command ends where a file cannot be written; here main() tells it.
namespace tutti::tools {
[[noreturn]] void refuse(const std::string& why);
void refuse(const std::string& why) { throw std::runtime_error(why); }
}  // namespace tutti::tools

namespace {

using tutti::formatted;
using tutti::tools::Svg;

constexpr double kLeft = 64, kRight = 250, kTop = 52, kBottom = 52, kWidth = 900, kHeight = 480;

struct Run {
  std::string name;
  std::vector<Svg::Point> losses;  // step, loss
};

Run read_run(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) throw std::runtime_error("'" + word + "' is no NAME=FILE");
  Run run{word.substr(0, equals), {}};
  std::ifstream file(word.substr(equals + 1));
  for (Svg::Point point; file >> point.x >> point.y;) run.losses.push_back(point);
  if (run.losses.size() < 2) throw std::runtime_error(word.substr(equals + 1) + " has no losses of two steps");
  return run;
}

std::string draw(const std::string& title, const std::vector<Run>& runs, bool over_time) {
  double last = 0, low = runs[0].losses[1].y, high = low;
  for (const Run& run : runs) {
    last = std::max(last, run.losses.back().x);
    for (const Svg::Point& point : run.losses) {
      low = std::min(low, point.y);
      if (point.x > 0) high = std::max(high, point.y);  // before the first steps all know nothing
    }
  }
  const auto x = [&](double step) { return kLeft + step / last * (kWidth - kLeft - kRight); };
  const auto y = [&](double loss) {
    return kHeight - kBottom - (std::min(loss, high) - low) / (high - low) * (kHeight - kTop - kBottom);
  };
  Svg svg(kWidth, kHeight);
  svg.text({kLeft, 28}, title, {16, Svg::Anchor::start, "#222222", true});
  constexpr int kMarks = 5;
  for (int mark = 0; mark <= kMarks; ++mark) {
    const double loss = low + (high - low) * mark / kMarks, step = last * mark / kMarks;
    svg.line({kLeft, y(loss)}, {kWidth - kRight, y(loss)}, "#dddddd");
    svg.text({kLeft - 8, y(loss) + 4}, formatted("%.2f", loss), {12, Svg::Anchor::end});
    svg.text({x(step), kHeight - kBottom + 18}, formatted(over_time ? "%.1f" : "%.0f", step),
             {12, Svg::Anchor::middle});
  }
  svg.text({kLeft, kTop - 8}, over_time ? "loss of examples that are not learned" : "loss of text that is not learned");
  svg.text({(kLeft + kWidth - kRight) / 2, kHeight - 12}, over_time ? "seconds" : "steps", {12, Svg::Anchor::middle});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<Svg::Point> points;
    for (const Svg::Point& point : runs[i].losses) points.push_back({x(point.x), y(point.y)});
    svg.lines(points, tutti::tools::svg_colour(i), 2);
    const double row = kTop + 18 * static_cast<double>(i);
    svg.line({kWidth - kRight + 14, row}, {kWidth - kRight + 34, row}, tutti::tools::svg_colour(i), 3);
    svg.text({kWidth - kRight + 40, row + 4}, runs[i].name + formatted(": %.3f", runs[i].losses.back().y));
  }
  return svg.str();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool over_time = argc > 3 && std::string(argv[3]) == "--seconds";
    const int first = over_time ? 4 : 3;
    if (argc <= first) throw std::runtime_error("usage: loss_curves OUT.svg TITLE [--seconds] NAME=FILE...");
    std::vector<Run> runs;
    for (int i = first; i < argc; ++i) runs.push_back(read_run(argv[i]));
    tutti::tools::write_picture(argv[1], draw(argv[2], runs, over_time));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
