#include "tools/bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/bench/sizes.h"

namespace tutti::bench {
namespace {

constexpr double kPanelWidth = 460, kPanelHeight = 300, kLeft = 64, kTop = 30, kBottom = 44, kRight = 12;
constexpr int kPanelsAcross = 3;
constexpr double kLegendHeight = 26;

struct Point {
  double x, y;
};
using Curves = std::map<std::string, std::vector<Point>>;  // by label

struct Panel {
  Verb verb;
  Curves lines;
};

constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49",
                                    "#6a4c93", "#00798c", "#8d6a4f", "#555555"};

std::string label_of(const Row& row) {
  const std::string name = row.name();
  return name.substr(name.find_last_of('/') + 1) + (row.cell.symmetric ? ", symmetric" : "");
}

std::vector<Panel> panels_of(const std::vector<Row>& rows, bool by_ranks) {
  std::vector<Panel> panels;
  std::uint64_t largest = 0;
  for (const Row& row : rows) largest = std::max(largest, row.bytes());
  for (const Row& row : rows) {
    if (row.cell.in_place != (row.cell.verb == Verb::broadcast)) continue;
    if (row.cell.verb == Verb::barrier || (by_ranks && row.bytes() * 2 <= largest)) continue;
    auto panel = std::find_if(panels.begin(), panels.end(), [&](const Panel& it) { return it.verb == row.cell.verb; });
    if (panel == panels.end()) panel = panels.insert(panels.end(), Panel{row.cell.verb, {}});
    const double x = by_ranks ? row.ranks : static_cast<double>(row.bytes());
    const double y = by_ranks ? row.busbw() : row.timing.median_us;
    if (y > 0) panel->lines[label_of(row)].push_back({x, y});
  }
  return panels;
}

// A logarithmic axis from `low` to `high` onto [from, to].
struct Axis {
  double low, high, from, to;
  double at(double value) const {
    const double span = std::log(high / low);
    return span <= 0 ? (from + to) / 2 : from + (to - from) * std::log(value / low) / span;
  }
};

Axis axis_over(const Curves& lines, double Point::*member, double from, double to) {
  Axis axis{1e300, 1e-300, from, to};
  for (const auto& [label, points] : lines) {
    for (const Point& point : points) {
      axis.low = std::min(axis.low, point.*member);
      axis.high = std::max(axis.high, point.*member);
    }
  }
  return axis;
}

std::string short_number(double value) {
  return value >= 1000 ? fmt::format("{:.3g}k", value / 1000) : fmt::format("{:.3g}", value);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor, text);
}

std::string rule(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='#ddd'/>\n", x1, y1, x2, y2);
}

std::string axes(const Panel& panel, const Axis& x, const Axis& y, bool by_ranks) {
  std::string svg = text_at(kLeft, kTop - 12, "start",
                            fmt::format("<tspan font-weight='bold'>{}</tspan>, {}", name_of(panel.verb),
                                        by_ranks ? "bus GB/s by ranks" : "us by bytes"));
  for (double tick = std::pow(10, std::ceil(std::log10(y.low))); tick <= y.high * 1.0001; tick *= 10) {
    svg += rule(x.from, y.at(tick), x.to, y.at(tick)) + text_at(x.from - 6, y.at(tick) + 4, "end", short_number(tick));
  }
  const double step = by_ranks ? 2 : 64;
  for (double tick = x.low; tick <= x.high * 1.0001; tick *= step) {
    const std::string word = by_ranks ? fmt::format("{}", tick) : text_of_bytes(static_cast<std::uint64_t>(tick));
    svg += rule(x.at(tick), y.from, x.at(tick), y.to) + text_at(x.at(tick), y.from + 16, "middle", word);
  }
  return svg;
}

std::string draw(const Panel& panel, const std::map<std::string, std::string>& colours, double left, double top,
                 bool by_ranks) {
  const Axis x = axis_over(panel.lines, &Point::x, kLeft, kPanelWidth - kRight);
  const Axis y = axis_over(panel.lines, &Point::y, kPanelHeight - kBottom, kTop);
  std::string svg = fmt::format("<g transform='translate({:.0f},{:.0f})'>\n", left, top) + axes(panel, x, y, by_ranks);
  for (const auto& [label, points] : panel.lines) {
    std::string path, dots;
    for (const Point& point : points) {
      path += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
      dots += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.5'/>", x.at(point.x), y.at(point.y));
    }
    svg += fmt::format("<g stroke='{0}' fill='{0}'><polyline fill='none' stroke-width='1.8' points='{1}'/>{2}</g>\n",
                       colours.at(label), path, dots);
  }
  return svg + "</g>\n";
}

}  // namespace

std::string plot_of(const std::vector<Row>& rows) {
  const bool by_ranks =
      std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.ranks != rows.front().ranks; });
  const std::vector<Panel> panels = panels_of(rows, by_ranks);
  std::map<std::string, std::string> colours;
  for (const Panel& panel : panels) {
    for (const auto& [label, points] : panel.lines) {
      if (!colours.contains(label)) colours[label] = kColours[colours.size() % std::size(kColours)];
    }
  }
  const int across = std::clamp(static_cast<int>(panels.size()), 1, kPanelsAcross);
  const int down = (static_cast<int>(panels.size()) + across - 1) / across;
  std::string body;
  double at = kLeft;
  for (const auto& [label, colour] : colours) {
    body += fmt::format("<rect x='{:.0f}' y='8' width='14' height='4' fill='{}'/>", at, colour) +
            text_at(at + 20, 15, "start", label);
    at += 40 + 7.0 * static_cast<double>(label.size());
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double column = static_cast<double>(i % static_cast<std::size_t>(across)),
                 line = static_cast<double>(i / static_cast<std::size_t>(across));
    body += draw(panels[i], colours, column * kPanelWidth, kLegendHeight + line * kPanelHeight, by_ranks);
  }
  const double width = std::max(across * kPanelWidth, at), height = kLegendHeight + down * kPanelHeight;
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' viewBox='0 0 {0:.0f} {1:.0f}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n{2}</svg>\n",
      width, height, body);
}

}  // namespace tutti::bench
