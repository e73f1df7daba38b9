#include "tools/trace/picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/told.h"
#include "tools/svg.h"

namespace tutti::analysis {
namespace {

using tools::Svg;

constexpr double kLeft = 70, kWidth = 1000, kTop = 60, kBar = 18, kPitch = 26, kBelow = 40, kRight = 20;

struct Share {
  const char* name;
  std::string_view colour;
};
constexpr Share kCompute = {"compute", "#9aa5b1"}, kHidden = {"communication behind computing", "#2a9d8f"},
                kExposed = {"exposed", "#e76f51"}, kWaiting = {"waiting for ranks that had not come", "#e9c46a"};

// What lies closer than a fifth of a pixel is drawn as one.
Intervals coarse(const Intervals& fine, double us_per_pixel) {
  Intervals drawn;
  for (const Interval& one : fine) {
    if (!drawn.empty() && one.begin_us - drawn.back().end_us < us_per_pixel / 5)
      drawn.back().end_us = one.end_us;
    else
      drawn.push_back(one);
  }
  return drawn;
}

}  // namespace

std::string picture_of(const TracedJob& trace, const std::string& title) {
  const Interval whole = trace.whole();
  const double us_per_pixel = std::max(whole.length_us(), 1e-3) / kWidth;
  const double height = kTop + kPitch * static_cast<double>(trace.ranks.size()) + kBelow;
  Svg svg(kLeft + kWidth + kRight, height);
  svg.text({kLeft, 20}, title, {.size = 14, .bold = true});
  double at = kLeft;
  for (const Share& kind : {kCompute, kHidden, kExposed, kWaiting}) {
    svg.box({at, 32, 12, 12}, kind.colour);
    svg.text({at + 16, 42}, kind.name);
    at += 40 + 6.5 * static_cast<double>(std::string_view(kind.name).size());
  }
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
    const RankTimeline& rank = trace.ranks[i];
    const double top = kTop + kPitch * static_cast<double>(i);
    svg.text({kLeft - 8, top + kBar - 5}, fmt::format("rank {}", rank.rank), {.anchor = Svg::Anchor::end});
    const auto draw = [&](const Intervals& what, const Share& kind, double from, double part) {
      for (const Interval& one : coarse(what, us_per_pixel))
        svg.box({kLeft + (one.begin_us - whole.begin_us) / us_per_pixel, top + from * kBar,
                 std::max(0.2, one.length_us() / us_per_pixel), part * kBar},
                kind.colour,
                fmt::format("{}, {} at {}", kind.name, plan::words_of_seconds(one.length_us() * 1e-6),
                            plan::words_of_seconds(one.begin_us * 1e-6)));
    };
    const Intervals exposed = without(rank.communication, rank.compute);
    draw(rank.compute, kCompute, 0, 1);
    draw(without(rank.communication, exposed), kHidden, 0.6, 0.4);
    draw(exposed, kExposed, 0, 1);
    draw(without(without(rank.under_way, rank.communication), rank.compute), kWaiting, 0, 1);
  }
  for (int tick = 0; tick <= 5; ++tick) {
    const double x = kLeft + kWidth * tick / 5;
    svg.line({x, kTop - 4}, {x, height - kBelow}, "#cccccc", 0.5);
    svg.text({x, height - kBelow + 16}, plan::words_of_seconds(whole.length_us() * 1e-6 * tick / 5),
             {.anchor = tick == 5 ? Svg::Anchor::end : Svg::Anchor::middle});
  }
  return svg.str();
}

}  // namespace tutti::analysis
