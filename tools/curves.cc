#include "tools/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/svg.h"

namespace tutti::tools {
namespace {

constexpr double kLeftOfCurves = 84, kRightOfCurves = 220, kTopOfCurves = 56, kBottomOfCurves = 76,
                 kWidthOfCurves = 980, kHeightOfCurves = 560;
constexpr double kNameHeightOfCurves = 16;

class Curves {
 public:
  Curves(const std::vector<std::uint64_t>& sizes, const std::vector<Curve>& curves) : sizes_(sizes), curves_(curves) {
    // What takes no time has no place on a logarithmic axis, and is drawn at the foot of it.
    for (const Curve& curve : curves) {
      for (const double seconds : curve.seconds) {
        if (!(seconds > 0)) continue;
        low_ = high_ == 0 ? seconds : std::min(low_, seconds);
        high_ = std::max(high_, seconds);
      }
    }
    if (high_ == 0) low_ = high_ = 1e-6;
  }

  std::string draw(const std::string& title) const {
    Svg svg(kWidthOfCurves, kHeightOfCurves);
    svg.text({kLeftOfCurves, 28}, title, {16, Svg::Anchor::start, "#222222", true});
    draw_axes(svg);
    draw_winners(svg);
    for (std::size_t i = 0; i < curves_.size(); ++i) draw_curve(svg, i);
    draw_names(svg);
    return svg.str();
  }

 private:
  static double on(double value, double low, double high, double from, double to) {
    return high <= low ? (from + to) / 2 : from + (to - from) * std::log(value / low) / std::log(high / low);
  }
  double x_of(std::size_t size) const {
    return on(static_cast<double>(sizes_[size]), static_cast<double>(sizes_.front()),
              static_cast<double>(sizes_.back()), kLeftOfCurves, kWidthOfCurves - kRightOfCurves);
  }
  double y_of(double seconds) const {
    return on(std::max(seconds, low_ / 1.2), low_ / 1.2, high_ * 1.2, kHeightOfCurves - kBottomOfCurves, kTopOfCurves);
  }
  std::size_t quickest(std::size_t size) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < curves_.size(); ++i) {
      if (curves_[i].seconds[size] < curves_[best].seconds[size]) best = i;
    }
    return best;
  }

  void draw_axes(Svg& svg) const {
    const double bottom = kHeightOfCurves - kBottomOfCurves, right = kWidthOfCurves - kRightOfCurves;
    for (int power = static_cast<int>(std::floor(std::log10(low_ / 1.2))); std::pow(10, power) <= high_ * 1.2;
         ++power) {
      for (const int factor : {1, 2, 5}) {
        const double tick = factor * std::pow(10, power);
        if (tick < low_ / 1.2 || tick > high_ * 1.2) continue;
        svg.line({kLeftOfCurves, y_of(tick)}, {right, y_of(tick)}, factor == 1 ? "#cfd8dc" : "#eceff1");
        if (factor == 1 || high_ / low_ < 100)
          svg.text({kLeftOfCurves - 8, y_of(tick) + 4}, rounded_time(tick), {11, Svg::Anchor::end});
      }
    }
    // As many names of sizes as there is room for.
    const auto every = static_cast<std::size_t>(std::ceil(static_cast<double>(sizes_.size()) / 11));
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      svg.line({x_of(size), kTopOfCurves}, {x_of(size), bottom}, "#eceff1");
      if (size % every == 0)
        svg.text({x_of(size), bottom + 34}, bench::text_of_bytes(sizes_[size]), {11, Svg::Anchor::middle});
    }
    svg.text({(kLeftOfCurves + right) / 2, bottom + 60}, "size of the vector, or of all chunks together",
             {12, Svg::Anchor::middle});
    svg.text({20, (kTopOfCurves + bottom) / 2}, "time", {12, Svg::Anchor::middle, "#222222", false, -90});
  }

  // A band below the curves in the colour of the quickest, and a line where that changes.
  void draw_winners(Svg& svg) const {
    const double bottom = kHeightOfCurves - kBottomOfCurves;
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      const double from = size == 0 ? kLeftOfCurves : (x_of(size - 1) + x_of(size)) / 2;
      const double to = size + 1 == sizes_.size() ? kWidthOfCurves - kRightOfCurves : (x_of(size) + x_of(size + 1)) / 2;
      const std::size_t best = quickest(size);
      svg.box({from, bottom + 6, to - from, 10}, svg_colour(best),
              fmt::format("{}: {} is the quickest", bench::text_of_bytes(sizes_[size]), curves_[best].name));
      if (size > 0 && quickest(size - 1) != best)
        svg.line({from, kTopOfCurves}, {from, bottom + 16}, "#90a4ae", 1, "4 3");
    }
  }

  void draw_curve(Svg& svg, std::size_t number) const {
    const Curve& curve = curves_[number];
    std::vector<Svg::Point> points;
    for (std::size_t size = 0; size < sizes_.size(); ++size) points.push_back({x_of(size), y_of(curve.seconds[size])});
    svg.lines(points, svg_colour(number), 1.8);
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      const bool best = quickest(size) == number;
      svg.circle(points[size], best ? 5 : 2.5, svg_colour(number),
                 fmt::format("{}, {}: {}{}", curve.name, bench::text_of_bytes(sizes_[size]),
                             rounded_time(curve.seconds[size]), best ? ", the quickest" : ""),
                 best ? "#222222" : "none");
    }
  }

  // At the ends of the curves, moved apart where they would lie over each other.
  void draw_names(Svg& svg) const {
    std::vector<std::size_t> order(curves_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto end_of = [&](std::size_t curve) { return y_of(curves_[curve].seconds.back()); };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return end_of(a) < end_of(b); });
    std::vector<double> places;
    for (const std::size_t curve : order)
      places.push_back(std::max(end_of(curve), places.empty() ? kTopOfCurves : places.back() + kNameHeightOfCurves));
    double most = kHeightOfCurves - kBottomOfCurves;
    for (std::size_t i = places.size(); i-- > 0; most = places[i] - kNameHeightOfCurves)
      places[i] = std::min(places[i], most);
    const double right = kWidthOfCurves - kRightOfCurves;
    for (std::size_t i = 0; i < order.size(); ++i) {
      svg.line({right + 4, end_of(order[i])}, {right + 18, places[i]}, svg_colour(order[i]));
      svg.text({right + 22, places[i] + 4}, curves_[order[i]].name,
               {12, Svg::Anchor::start, svg_colour(order[i]), quickest(sizes_.size() - 1) == order[i]});
    }
    svg.text({right + 22, kHeightOfCurves - kBottomOfCurves + 16}, "the quickest", {11});
  }

  const std::vector<std::uint64_t>& sizes_;
  const std::vector<Curve>& curves_;
  double low_ = 0, high_ = 0;  // seconds
};

}  // namespace

std::string curves_of(const std::vector<std::uint64_t>& sizes, const std::vector<Curve>& curves,
                      const std::string& title) {
  return Curves(sizes, curves).draw(title);
}

}  // namespace tutti::tools
