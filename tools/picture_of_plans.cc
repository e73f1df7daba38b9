// Two jobs side by side: bars of a step, of what tokens cost where the batches differ, and of memory, each pair in one
// scale, with the figures of every part below.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "plan/told.h"
#include "tools/pictures.h"
#include "tools/svg.h"

namespace tutti::tools {
namespace {

using plan::JobPlan;
using plan::NamedAmount;

// A pair of bars.
struct Pair {
  std::string title;
  std::array<std::vector<NamedAmount>, 2> parts;  // the same names in both
  std::string (*words)(double);
  std::array<double, 2> room{};  // where each has no more of it; 0: it has no end

  std::vector<std::size_t> shown() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < parts[0].size(); ++i)
      if (parts[0][i].amount > 0 || parts[1][i].amount > 0) found.push_back(i);
    return found;
  }
  double whole(std::size_t side) const {
    double sum = 0;
    for (const NamedAmount& part : parts[side]) sum += part.amount;
    return sum;
  }
};

constexpr double kLeft = 20, kWide = 900, kBar = 26, kLine = 18, kHeading = 34, kAbove = 20;
constexpr double kFigures[] = {kLeft + 300, kLeft + 470};  // where those of each side end

// So that it fits above a column.
std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 22;
  return name.size() <= kMost ? name : name.substr(0, kMost - 2) + "..";
}

double height_of(const Pair& pair) {
  return kHeading + 2 * (kAbove + kBar + 10) + kLine * static_cast<double>(pair.shown().size() + 2) + 20;
}

void add_bars(Svg& svg, const Pair& pair, const std::array<std::string, 2>& names, double y) {
  svg.text({kLeft, y + 22}, pair.title, {14, Svg::Anchor::start, "#222222", true});
  y += kHeading;
  const std::vector<std::size_t> shown = pair.shown();
  double most = 0;
  for (std::size_t side = 0; side < 2; ++side) most = std::max({most, pair.whole(side), pair.room[side]});
  const double scale = kWide / std::max(most, 1e-300);
  for (std::size_t side = 0; side < 2; ++side) {
    const double whole = pair.whole(side), top = y + kAbove;
    svg.text({kLeft, y + 14}, names[side]);
    svg.text({kLeft + kWide, y + 14}, pair.words(whole), {12, Svg::Anchor::end, "#222222", true});
    double x = kLeft;
    for (std::size_t colour = 0; colour < shown.size(); ++colour) {
      const NamedAmount& part = pair.parts[side][shown[colour]];
      if (!(part.amount > 0)) continue;
      svg.box({x, top, part.amount * scale, kBar}, svg_colour(colour),
              fmt::format("{}, {}: {}, {:.1f} %", names[side], part.name, pair.words(part.amount),
                          100 * part.amount / whole));
      x += part.amount * scale;
    }
    if (const double room = pair.room[side]; room > 0)
      svg.line({kLeft + room * scale, top - 5}, {kLeft + room * scale, top + kBar + 5}, "#222222", 2, "4 3");
    y += kAbove + kBar + 10;
  }
  y += kLine;
  for (std::size_t side = 0; side < 2; ++side)
    svg.text({kFigures[side], y}, shortened(names[side]), {12, Svg::Anchor::end, "#777777"});
  for (std::size_t colour = 0; colour < shown.size(); ++colour) {
    y += kLine;
    svg.box({kLeft, y - 10, 11, 11}, svg_colour(colour));
    svg.text({kLeft + 18, y}, pair.parts[0][shown[colour]].name);
    for (std::size_t side = 0; side < 2; ++side)
      svg.text({kFigures[side], y}, pair.words(pair.parts[side][shown[colour]].amount), {12, Svg::Anchor::end});
  }
}

std::vector<NamedAmount> of_a_million_tokens(const JobPlan& plan) {
  std::vector<NamedAmount> parts = parts_of(plan.time);
  const double steps = 1e6 / (static_cast<double>(plan.job.global_batch) * plan.job.sequence);
  for (NamedAmount& part : parts) part.amount *= steps * plan.job.devices();
  return parts;
}

}  // namespace

std::string picture_of(const JobPlan& first, const JobPlan& second, const std::array<std::string, 2>& names,
                       const std::vector<std::string>& why) {
  std::vector<Pair> pairs{{"time of a step", {parts_of(first.time), parts_of(second.time)}, plan::words_of_seconds}};
  const auto is_same_work = [](const JobPlan& a, const JobPlan& b) {
    return a.job.devices() == b.job.devices() && a.job.global_batch == b.job.global_batch &&
           a.job.sequence == b.job.sequence;
  };
  if (!is_same_work(first, second))
    pairs.push_back({"time of all devices together for a million tokens",
                     {of_a_million_tokens(first), of_a_million_tokens(second)},
                     plan::words_of_seconds});
  std::string memory = "memory of a device";
  if (!first.fits()) memory += fmt::format("; {} does not fit", names[0]);
  if (!second.fits()) memory += fmt::format("; {} does not fit", names[1]);
  pairs.push_back({memory,
                   {parts_of(first.memory), parts_of(second.memory)},
                   plan::words_of_bytes,
                   {first.memory.capacity, second.memory.capacity}});

  double height = 50 + kLine * static_cast<double>(why.size());
  for (const Pair& pair : pairs) height += height_of(pair);
  Svg svg(2 * kLeft + kWide, height);
  svg.text({kLeft, 26}, fmt::format("{} and {}: {}", names[0], names[1], first.job.model.name),
           {16, Svg::Anchor::start, "#222222", true});
  double y = 36;
  for (const Pair& pair : pairs) {
    add_bars(svg, pair, names, y);
    y += height_of(pair);
  }
  for (const std::string& sentence : why) svg.text({kLeft, y += kLine}, sentence);
  return svg.str();
}

}  // namespace tutti::tools
