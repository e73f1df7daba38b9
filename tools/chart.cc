#include "tools/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/svg.h"

namespace tutti::tools {
namespace {

constexpr double kChartLeft = 84, kChartRight = 240, kChartTop = 56, kChartBottom = 64, kChartWidth = 980,
                 kChartHeight = 520;

class ChartDrawing {
 public:
  explicit ChartDrawing(const Chart& chart) : chart_(chart) {
    const auto take = [&](double value) {
      if (!(value > 0)) return;
      low_ = std::min(low_, value);
      high_ = std::max(high_, value);
    };
    for (const ChartLine& line : chart.lines) std::ranges::for_each(line.values, take);
    if (chart.level) take(chart.level->value);
    if (!(low_ <= high_)) low_ = high_ = 1;  // nothing to draw
    low_ /= 1.3;
    high_ *= 1.3;
  }

  std::string draw() const {
    Svg svg(kChartWidth, kChartHeight);
    svg.text({kChartLeft, 28}, chart_.title, {16, Svg::Anchor::start, "#222222", true});
    draw_axes(svg);
    if (chart_.level) {
      const double y = y_of(chart_.level->value);
      svg.line({kChartLeft, y}, {kRight, y}, "#222222", 1.2, "6 4");
      svg.text({kRight + 8, y + 4}, chart_.level->name, {12, Svg::Anchor::start, "#222222", true});
    }
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_line(svg, i);
    return svg.str();
  }

 private:
  static constexpr double kRight = kChartWidth - kChartRight, kFloor = kChartHeight - kChartBottom;

  static double on(double value, double low, double high, double from, double to) {
    return high <= low ? (from + to) / 2 : from + (to - from) * std::log(value / low) / std::log(high / low);
  }
  double x_of(double place) const { return on(place, chart_.places.front(), chart_.places.back(), kChartLeft, kRight); }
  double y_of(double value) const { return on(value, low_, high_, kFloor, kChartTop); }

  void draw_axes(Svg& svg) const {
    for (int power = static_cast<int>(std::floor(std::log10(low_))); std::pow(10, power) <= high_; ++power) {
      for (const int factor : {1, 2, 5}) {
        const double tick = factor * std::pow(10, power);
        if (tick < low_ || tick > high_) continue;
        svg.line({kChartLeft, y_of(tick)}, {kRight, y_of(tick)}, factor == 1 ? "#cfd8dc" : "#eceff1");
        if (factor == 1 || high_ / low_ < 100)
          svg.text({kChartLeft - 8, y_of(tick) + 4}, fmt::format("{:g}", tick), {11, Svg::Anchor::end});
      }
    }
    const std::size_t every = (chart_.places.size() + 10) / 11;
    for (std::size_t i = 0; i < chart_.places.size(); ++i) {
      const double x = x_of(chart_.places[i]);
      svg.line({x, kChartTop}, {x, kFloor}, "#eceff1");
      if (i % every == 0) svg.text({x, kFloor + 20}, fmt::format("{:g}", chart_.places[i]), {11, Svg::Anchor::middle});
    }
    svg.text({(kChartLeft + kRight) / 2, kFloor + 46}, chart_.across, {12, Svg::Anchor::middle});
    svg.text({20, (kChartTop + kFloor) / 2}, chart_.upwards, {12, Svg::Anchor::middle, "#222222", false, -90});
  }

  void draw_line(Svg& svg, std::size_t number) const {
    const ChartLine& line = chart_.lines[number];
    std::vector<Svg::Point> points;
    for (std::size_t i = 0; i < line.values.size(); ++i) {
      if (!(line.values[i] > 0)) continue;
      points.push_back({x_of(chart_.places[i]), y_of(line.values[i])});
      svg.circle(points.back(), line.dashed ? 2.5 : 4, svg_colour(number),
                 fmt::format("{}, {:g}: {:.4g}", line.name, chart_.places[i], line.values[i]));
    }
    if (line.dashed) {
      for (std::size_t i = 1; i < points.size(); ++i)
        svg.line(points[i - 1], points[i], svg_colour(number), 1.5, "5 4");
    } else {
      svg.lines(points, svg_colour(number), 1.8);
    }
    const double y = kChartTop + 18 * static_cast<double>(number);
    svg.line({kRight + 8, y}, {kRight + 26, y}, svg_colour(number), 2, line.dashed ? "5 4" : "");
    svg.text({kRight + 32, y + 4}, line.name, {12, Svg::Anchor::start, svg_colour(number)});
  }

  const Chart& chart_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = 0;
};

}  // namespace

std::string picture_of(const Chart& chart) { return ChartDrawing(chart).draw(); }

}  // namespace tutti::tools
