#include "tools/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/clusters.h"
#include "tools/svg.h"

namespace tutti::tools {
namespace {

using schedule::Simulated;
using Activity = Simulated::Activity;

constexpr double kLeftOfTimeline = 84, kRightOfTimeline = 24, kTopOfTimeline = 74, kBottomOfTimeline = 46,
                 kWidthOfTimeline = 1180;
constexpr std::string_view kSending = "#1b6ca8", kComputing = "#2e933c", kIdle = "#eceff1", kPath = "#d1495b";

// The least 1, 2 or 5 times a power of ten that cuts the span into at most so many parts.
double tick_of(double span, int most) {
  const double rough = span / most, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// A colour between two, both as "#rrggbb".
std::string blended(std::string_view from, std::string_view to, double part) {
  std::string colour = "#";
  for (const std::size_t at : {1u, 3u, 5u}) {
    const auto channel = [&](std::string_view text) { return std::stoi(std::string(text.substr(at, 2)), nullptr, 16); };
    colour +=
        fmt::format("{:02x}", static_cast<int>(std::lround(channel(from) + part * (channel(to) - channel(from)))));
  }
  return colour;
}

class Timeline {
 public:
  Timeline(const Simulated& simulated, const std::string& title)
      : simulated_(simulated),
        title_(title),
        span_(simulated.seconds > 0 ? simulated.seconds : 1),
        rows_(rows_of(simulated)),
        row_height_(height_of_row(rows_.size())) {}

  std::string draw() {
    const double height = kTopOfTimeline + row_height_ * static_cast<double>(rows_.size()) + kBottomOfTimeline;
    Svg svg(kWidthOfTimeline, height);
    svg.text({kLeftOfTimeline, 24}, title_, {16, Svg::Anchor::start, "#222222", true});
    draw_legend(svg);
    draw_rows(svg);
    draw_axis(svg);
    draw_path(svg);
    return svg.str();
  }

 private:
  static std::map<int, std::size_t> rows_of(const Simulated& simulated) {
    std::map<int, std::size_t> rows;
    const auto ranks = static_cast<int>(simulated.ends.size());
    for (int rank = 0; rank < std::min(ranks, schedule::kActiveRanks) && simulated.simulated_ranks == ranks; ++rank)
      rows.emplace(rank, 0);
    // Where ranks were folded, those that stand for others.
    for (const Activity& activity : simulated.activities) rows.emplace(activity.rank, 0);
    for (const Simulated::Hop& hop : simulated.path.hops) {
      if (hop.rank < schedule::kActiveRanks) rows.emplace(hop.rank, 0);
    }
    std::size_t next = 0;
    for (auto& [rank, row] : rows) row = next++;
    return rows;
  }
  static double height_of_row(std::size_t rows) { return rows <= 16 ? 26 : rows <= 32 ? 20 : 14; }

  double x_of(double seconds) const {
    return kLeftOfTimeline + (kWidthOfTimeline - kLeftOfTimeline - kRightOfTimeline) * seconds / span_;
  }
  double y_of(int rank) const { return kTopOfTimeline + row_height_ * static_cast<double>(rows_.at(rank)); }

  void draw_legend(Svg& svg) const {
    double x = kLeftOfTimeline;
    const auto entry = [&](std::string_view colour, std::string_view words) {
      svg.box({x, 42, 12, 12}, colour);
      svg.text({x + 18, 52}, words);
      x += 44 + 6.6 * static_cast<double>(words.size());
    };
    entry(kSending, "sending");
    entry(kComputing, "computing");
    entry(kIdle, "neither: waiting, or done");
    entry(kPath, "critical path");
  }

  void draw_rows(Svg& svg) const {
    for (const auto& [rank, row] : rows_) {
      const double y = y_of(rank);
      const double end = simulated_.ends[static_cast<std::size_t>(rank)];
      svg.box({kLeftOfTimeline, y + 2, std::max(0.5, x_of(end) - kLeftOfTimeline), row_height_ - 4}, kIdle,
              fmt::format("rank {}, which ends after {}", rank, rounded_time(end)));
      svg.text({kLeftOfTimeline - 8, y + row_height_ / 2 + 4}, fmt::format("rank {}", rank), {11, Svg::Anchor::end});
    }
    std::map<std::pair<int, Activity::Kind>, std::vector<Activity>> by_row;
    for (const Activity& activity : simulated_.activities) by_row[{activity.rank, activity.kind}].push_back(activity);
    for (const auto& [row, activities] : by_row) draw_activities(svg, activities);
  }

  // One box for each, where there is room for all; else the denser the more was done at the time.
  void draw_activities(Svg& svg, const std::vector<Activity>& activities) const {
    constexpr std::size_t kMostBoxes = 300;
    if (activities.size() > kMostBoxes) return draw_density(svg, activities);
    for (const Activity& activity : activities) {
      const bool sends = activity.kind == Activity::Kind::sending;
      draw_box(svg, activity, activity.begin_s, activity.end_s, 1,
               fmt::format("rank {} {}: {} to {}", activity.rank,
                           sends ? fmt::format("sends to rank {}", activity.peer) : "computes",
                           rounded_time(activity.begin_s), rounded_time(activity.end_s)));
    }
  }

  void draw_density(Svg& svg, const std::vector<Activity>& activities) const {
    constexpr double kBins = 268, kShades = 10;
    const double width = span_ / kBins;
    std::vector<double> busy(static_cast<std::size_t>(kBins), 0);
    for (const Activity& activity : activities) {
      auto bin = static_cast<std::size_t>(activity.begin_s / width);
      for (double at = activity.begin_s; at < activity.end_s && bin < busy.size(); ++bin) {
        const double until = std::min(activity.end_s, static_cast<double>(bin + 1) * width);
        busy[bin] += (until - at) / width;
        at = until;
      }
    }
    for (double& part : busy) part = std::round(std::min(1.0, part) * kShades) / kShades;
    for (std::size_t first = 0; first < busy.size();) {
      std::size_t last = first + 1;
      while (last < busy.size() && busy[last] == busy[first]) ++last;
      if (busy[first] > 0) {
        const double begin = static_cast<double>(first) * width, end = static_cast<double>(last) * width;
        draw_box(svg, activities.front(), begin, end, busy[first],
                 fmt::format("rank {} {} {:.0f} % of the time from {} to {}", activities.front().rank,
                             activities.front().kind == Activity::Kind::sending ? "sends" : "computes",
                             100 * busy[first], rounded_time(begin), rounded_time(end)));
      }
      first = last;
    }
  }

  // Messages above, computing below: a rank may do both at once.
  void draw_box(Svg& svg, const Activity& activity, double begin, double end, double density,
                const std::string& note) const {
    const bool sends = activity.kind == Activity::Kind::sending;
    const double x = x_of(begin), inner = row_height_ - 4, gap = density < 1 ? 0 : 0.4;
    svg.box({x, y_of(activity.rank) + 2 + (sends ? 0 : inner * 0.62), std::max(0.4, x_of(end) - x - gap),
             inner * (sends ? 0.6 : 0.38)},
            blended(kIdle, sends ? kSending : kComputing, density), note);
  }

  void draw_axis(Svg& svg) const {
    const double bottom = kTopOfTimeline + row_height_ * static_cast<double>(rows_.size()) + 4;
    svg.line({kLeftOfTimeline, bottom}, {kWidthOfTimeline - kRightOfTimeline, bottom}, "#777777");
    const double tick = simulated_.seconds > 0 ? tick_of(simulated_.seconds, 10) : 0;
    const int ticks = tick > 0 ? static_cast<int>(simulated_.seconds * (1 + 1e-9) / tick) : 0;
    for (int i = 0; i <= ticks; ++i) {
      const double x = x_of(i * tick);
      svg.line({x, kTopOfTimeline}, {x, bottom + 4}, "#cfd8dc");
      svg.text({x, bottom + 18}, i == 0 ? "0" : rounded_time(i * tick), {11, Svg::Anchor::middle});
    }
    svg.text({(kLeftOfTimeline + kWidthOfTimeline - kRightOfTimeline) / 2, bottom + 36}, "time",
             {12, Svg::Anchor::middle});
  }

  // From one step to the one that it let fire.
  void draw_path(Svg& svg) const {
    std::vector<Svg::Point> points;
    for (const Simulated::Hop& hop : simulated_.path.hops) {
      if (!rows_.contains(hop.rank)) continue;
      const Svg::Point point{x_of(hop.fired_s), y_of(hop.rank) + row_height_ / 2};
      const bool near = points.size() > 1 && std::abs(points.back().x - point.x) < 0.4 && points.back().y == point.y;
      if (!near) points.push_back(point);
    }
    svg.lines(points, kPath, 1.4);
  }

  const Simulated& simulated_;
  const std::string& title_;
  double span_;                      // seconds that are drawn, which are some even where nothing takes any time
  std::map<int, std::size_t> rows_;  // by rank
  double row_height_;
};

}  // namespace

std::string timeline_of(const Simulated& simulated, const std::string& title) {
  return Timeline(simulated, title).draw();
}

}  // namespace tutti::tools
