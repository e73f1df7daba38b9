#include "tools/view/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

namespace tutti::view {
namespace {

using Json = nlohmann::ordered_json;
using schedule::Simulated;

// Nanoseconds are fine enough, and short to write.
double us_of(double seconds) { return std::round(seconds * 1e9) / 1e3; }

}  // namespace

Json timeline_json(const Simulated& simulated, const topology::Topology& topology) {
  constexpr std::size_t kMostActivities = 20'000, kMostHops = 2'000, kMostLinks = 16;
  Json activities = Json::array(), path = Json::array(), links = Json::array();
  // Ranks that do the same at the same time are told together.
  using Key = std::tuple<double, double, bool, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, Json> together;
  for (std::size_t i = 0; i < std::min(simulated.activities.size(), kMostActivities); ++i) {
    const Simulated::Activity& one = simulated.activities[i];
    const bool sends = one.kind == Simulated::Activity::Kind::sending;
    Json& ranks = together[{us_of(one.begin_s), us_of(one.end_s), sends, one.lane, one.step, one.segment}];
    for (const int number : {one.rank, one.peer}) ranks.push_back(number);
  }
  for (const auto& [key, ranks] : together) {
    const auto& [begin, end, sends, lane, step, segment] = key;
    Json words = {sends ? 1 : 0, begin, end, lane, step, segment};
    words.insert(words.end(), ranks.begin(), ranks.end());
    activities.push_back(std::move(words));
  }
  for (const Simulated::Hop& hop : simulated.path.hops) {
    if (path.size() == kMostHops) break;
    path.push_back({hop.rank, hop.lane, hop.step, hop.segment, us_of(hop.fired_s)});
  }
  for (std::size_t i = 0; i < std::min(simulated.links.size(), kMostLinks); ++i) {
    const Simulated::Link& link = simulated.links[i];
    links.push_back({topology.words_of(link.link), link.bytes, link.utilisation});
  }
  return {{"topology", topology.name + ":" + std::to_string(topology.hosts)},
          {"us", us_of(simulated.seconds)},
          {"activities", std::move(activities)},
          {"path", std::move(path)},
          {"links", std::move(links)}};
}

}  // namespace tutti::view
