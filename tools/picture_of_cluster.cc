// A cluster: switches above, the first hosts with their parts below, and a line for every link between what is drawn.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tools/clusters.h"
#include "tools/pictures.h"
#include "tools/svg.h"

namespace tutti::tools {
namespace {

using topology::LinkEnds;
using topology::LinkKind;
using topology::Part;
using topology::PartKind;
using topology::Pattern;
using topology::Topology;

std::string_view fill_of(PartKind kind) {
  switch (kind) {
    case PartKind::device_: return "#cfe3f3";
    case PartKind::bridge_: return "#e4dcf1";
    case PartKind::nic_: return "#fbe7c6";
    case PartKind::switch_: return "#d5ecd8";
  }
  return "white";
}

class ClusterPicture {
 public:
  explicit ClusterPicture(const Topology& topology, std::span<const PlacedRank> placed = {})
      : topology_(topology), placed_(placed), hosts_(std::min(topology.hosts, kMostHosts)) {
    place_levels();
    place_parts();
  }

  std::string title() const {
    return fmt::format("{}: {} host{}, {} ranks on {}", topology_.name, topology_.hosts,
                       topology_.hosts == 1 ? "" : "s", topology_.ranks(), topology_.devices().name);
  }

  std::string svg(const std::string& title) const {
    const std::string heading = title + words_of_hosts();
    // What is written is to be read whole.
    const double width = std::max(width_, 40 + 7.6 * static_cast<double>(heading.size()));
    Svg svg(width, kTop + (top_level_ + 1) * kLevel + 14 + kLegendLine * (1 + static_cast<double>(kinds())));
    svg.text({20, 26}, heading, {15, Svg::Anchor::start, "#222222", true, 0});
    add_hosts(svg);
    add_links(svg);
    add_parts(svg);
    add_legend(svg);
    return svg.str();
  }

 private:
  static constexpr int kMostHosts = 4, kMostOfPart = 16;
  static constexpr double kCell = 30, kHostGap = 26, kLevel = 70, kTop = 70, kLeft = 120, kLegendLine = 17;
  using One = std::pair<int, std::int64_t>;  // a part, and which of all of them

  std::size_t kinds() const { return topology_.links.size(); }
  const Part& part(int number) const { return topology_.parts[static_cast<std::size_t>(number)]; }
  double y_of(int number) const {
    return kTop + (top_level_ - levels_[static_cast<std::size_t>(number)]) * kLevel + 30;
  }

  std::string words_of_hosts() const {
    return hosts_ < topology_.hosts ? fmt::format("; the first {} hosts are drawn", hosts_) : "";
  }

  // Whether ranks of a mesh are on parts of this kind.
  bool has_ranks(int number) const { return !placed_.empty() && &part(number) == &topology_.devices(); }
  // The rank of a mesh that is on this part, if there is one.
  const PlacedRank* placed_on(const One& one) const {
    if (!has_ranks(one.first)) return nullptr;
    const int count = part(one.first).count;
    const auto device =
        static_cast<std::size_t>(topology_.first_rank(static_cast<int>(one.second / count)) + one.second % count);
    return device < placed_.size() ? &placed_[device] : nullptr;
  }

  // A row for each part.
  void place_levels() {
    levels_.assign(topology_.parts.size(), 0);
    const std::vector<std::size_t> order = parts_from_below(topology_);
    for (std::size_t row = 0; row < order.size(); ++row) {
      levels_[order[row]] = static_cast<int>(row);
      if (topology_.parts[order[row]].in_host()) inside_ = static_cast<int>(row);
    }
    top_level_ = static_cast<int>(order.size()) - 1;
  }

  void place_parts() {
    int widest = 5;
    for (const Part& of : topology_.parts) {
      if (of.in_host()) widest = std::max(widest, std::min(of.count, kMostOfPart));
    }
    host_width_ = widest * kCell + 20;
    const bool more = hosts_ < topology_.hosts;
    width_ = std::max(620.0, kLeft + hosts_ * (host_width_ + kHostGap) + (more ? 40 : 0));
    for (int i = 0; i < static_cast<int>(topology_.parts.size()); ++i) {
      if (!part(i).in_host()) continue;
      for (int host = 0; host < hosts_; ++host) {
        const int drawn = std::min(topology_.count_in(part(i), host), kMostOfPart);
        for (int one = 0; one < drawn; ++one)
          places_[{i, std::int64_t{host} * part(i).count + one}] = {
              kLeft + host * (host_width_ + kHostGap) + host_width_ * (one + 0.5) / drawn, y_of(i)};
      }
    }
    place_switches();
  }

  // Those that what is drawn below leads to.
  void place_switches() {
    std::map<int, std::map<std::int64_t, bool>> reached;
    for (std::int64_t link = 0; link < topology_.directed_links(); link += 2) {
      const LinkEnds ends = topology_.ends_of(link);
      const bool from_below =
          places_.contains({ends.lower, ends.lower_one}) || reached[ends.lower].contains(ends.lower_one);
      if (from_below && !part(ends.upper).in_host()) reached[ends.upper][ends.upper_one] = true;
    }
    const double span = hosts_ * (host_width_ + kHostGap) - kHostGap;
    for (const auto& [number, ones] : reached) {
      const auto drawn = std::min<std::size_t>(ones.size(), kMostOfPart);
      std::size_t at = 0;
      for (const auto& [one, is_reached] : ones) {
        if (at == drawn) break;
        places_[{number, one}] = {kLeft + span * (static_cast<double>(at++) + 0.5) / static_cast<double>(drawn),
                                  y_of(number)};
      }
    }
  }

  void add_hosts(Svg& svg) const {
    const double top = kTop + (top_level_ - inside_) * kLevel, height = (inside_ + 1) * kLevel - 8;
    for (int host = 0; host < hosts_; ++host) {
      const double x = kLeft + host * (host_width_ + kHostGap);
      svg.box({x, top, host_width_, height}, "#fafafa", fmt::format("host {}", host), "#bbbbbb");
      svg.text({x + 6, top + height - 6}, fmt::format("host {}", host), {11, Svg::Anchor::start, "#777777", false, 0});
    }
    if (hosts_ < topology_.hosts)
      svg.text({kLeft + hosts_ * (host_width_ + kHostGap) - kHostGap + 10, top + height / 2},
               fmt::format("+ {}", topology_.hosts - hosts_), {13, Svg::Anchor::start, "#777777", false, 0});
  }

  double stroke_of(const LinkKind& kind) const {
    return std::clamp(0.8 + std::log10(kind.up.bytes_per_s / 1e9) * 0.9, 0.6, 4.0);
  }

  void add_links(Svg& svg) const {
    for (std::int64_t link = 0; link < topology_.directed_links(); link += 2) {
      const LinkEnds ends = topology_.ends_of(link);
      const auto lower = places_.find({ends.lower, ends.lower_one}), upper = places_.find({ends.upper, ends.upper_one});
      if (lower == places_.end() || upper == places_.end() || lower == upper) continue;
      const LinkKind& kind = topology_.kind_of(link);
      const auto which = static_cast<std::size_t>(&kind - topology_.links.data());
      if (kind.pattern != Pattern::mesh) {
        svg.line(lower->second, upper->second, svg_colour(which), stroke_of(kind));
      } else if (ends.lower_one < ends.upper_one) {
        const Svg::Point a = lower->second, b = upper->second;
        const Svg::Point arc[] = {a, {(a.x + b.x) / 2, a.y - 12 - 0.04 * (b.x - a.x)}, b};
        svg.lines(arc, svg_colour(which), stroke_of(kind));
      }
    }
  }

  void add_parts(Svg& svg) const {
    for (const auto& [one, place] : places_) {
      const Part& of = part(one.first);
      const std::string number = std::to_string(of.in_host() ? one.second % of.count : one.second);
      const std::string words = of.in_host() ? fmt::format("{} {} of host {}", of.name, number, one.second / of.count)
                                             : fmt::format("{} {}", of.name, number);
      const PlacedRank* const rank = placed_on(one);
      const bool is_left_out = has_ranks(one.first) && rank == nullptr;
      svg.box({place.x - 12, place.y - 11, 24, 22}, is_left_out ? "#ffffff" : fill_of(of.kind),
              rank == nullptr ? words : fmt::format("rank {}: {}; {}", rank->rank, rank->note, words), "#666666");
      if (rank != nullptr) svg.box({place.x - 12, place.y + 12, 24, 5}, svg_colour(rank->group));
      if (is_left_out) continue;
      svg.text({place.x, place.y + 4}, rank == nullptr ? number : std::to_string(rank->rank),
               {10, Svg::Anchor::middle, "#222222", false, 0});
    }
    for (int i = 0; i < static_cast<int>(topology_.parts.size()); ++i) {
      svg.text({kLeft - 14, y_of(i) + 4}, has_ranks(i) ? "rank, on " + part(i).name : part(i).name,
               {12, Svg::Anchor::end, "#222222", true, 0});
      if (const std::string words = drawn_of(i); !words.empty())
        svg.text({kLeft - 14, y_of(i) + 18}, words, {10, Svg::Anchor::end, "#777777", false, 0});
    }
  }

  // "16 of 72", where not all are drawn; in each host, or of all switches.
  std::string drawn_of(int number) const {
    const Part& of = part(number);
    std::int64_t drawn = 0;
    for (const auto& [one, place] : places_) drawn += one.first == number ? 1 : 0;
    std::int64_t all = of.in_host() ? 0 : topology_.total(of);
    for (int host = 0; of.in_host() && host < hosts_; ++host) all += topology_.count_in(of, host);
    if (of.in_host() && of.counts.empty()) {
      drawn /= hosts_;
      all /= hosts_;
    }
    return drawn == all ? "" : fmt::format("{} of {}", drawn, all);
  }

  void add_legend(Svg& svg) const {
    double y = kTop + (top_level_ + 1) * kLevel + 20;
    for (std::size_t i = 0; i < kinds(); ++i, y += kLegendLine) {
      const LinkKind& kind = topology_.links[i];
      svg.line({20, y - 4}, {48, y - 4}, svg_colour(i), stroke_of(kind));
      const auto speed = [](const topology::LinkSpeed& of) {
        return fmt::format("{}, {}", rounded_bandwidth(of.bytes_per_s), rounded_time(of.latency_s));
      };
      svg.text({56, y},
               fmt::format("{} - {}: {}{}", part(kind.lower).name, part(kind.upper).name, speed(kind.up),
                           kind.up == kind.down ? " each way" : "; back " + speed(kind.down)),
               {11, Svg::Anchor::start, "#222222", false, 0});
    }
  }

  const Topology& topology_;
  std::span<const PlacedRank> placed_;  // of a mesh
  int hosts_;                           // that are drawn
  std::vector<int> levels_;             // of each part, from below
  int inside_ = 0, top_level_ = 0;
  double host_width_ = 0, width_ = 0;
  std::map<One, Svg::Point> places_;  // of what is drawn
};

}  // namespace

std::string picture_of(const Topology& topology) {
  const ClusterPicture picture(topology);
  return picture.svg(picture.title());
}

std::string picture_of(const Topology& topology, std::span<const PlacedRank> ranks, const std::string& title) {
  return ClusterPicture(topology, ranks).svg(title);
}

}  // namespace tutti::tools
