#include "tools/view/cluster.h"

#include <map>
#include <string>
#include <vector>

#include "tools/view/packed.h"
#include "topology/router.h"

namespace tutti::view {
namespace {

using Json = nlohmann::ordered_json;
using topology::LinkEnds;
using topology::Part;
using topology::Topology;

class ClusterMap {
 public:
  ClusterMap(const Topology& topology, int ranks) : topology_(topology) {
    const Part& devices = topology.devices();
    const auto number = static_cast<int>(&devices - topology.parts.data());
    for (int rank = 0; rank < ranks; ++rank) {
      const int host = topology.host_of(rank);
      node_of(number, std::int64_t{host} * devices.count + rank - topology.first_rank(host));
    }
  }

  // The numbers of the part that leads up, and of the one that leads down.
  std::pair<int, int> way(const topology::Route& route) {
    Json up = Json::array(), down = Json::array();
    for (const std::int64_t link : route.links) {
      // Both directions of a link have neighbouring numbers, upwards first.
      const auto [at, is_new] = links_.emplace(link / 2, links_.size());
      if (is_new) {
        const LinkEnds ends = topology_.ends_of(link);
        const std::size_t lower = node_of(ends.lower, ends.lower_one), upper = node_of(ends.upper, ends.upper_one);
        json_of_links_.push_back({lower, upper, topology_.speed_of(link).bytes_per_s, topology_.words_of(link)});
      }
      const bool leads_down = link % 2 != 0 || !down.empty();  // behind what leads down all is of that part
      (leads_down ? down : up).push_back(2 * at->second + static_cast<std::size_t>(link % 2));
    }
    return {ups_.number_of(up), downs_.number_of(down)};
  }

  Json nodes() const { return nodes_; }
  Json links() const { return json_of_links_; }
  Json ups() const { return ups_.list; }
  Json downs() const { return downs_.list; }

 private:
  // Many ways begin or end alike.
  struct Parts {
    std::map<Json, int> numbers;
    Json list = Json::array();

    int number_of(const Json& part) {
      const auto [at, is_new] = numbers.emplace(part, static_cast<int>(list.size()));
      if (is_new) list.push_back(part);
      return at->second;
    }
  };

  std::size_t node_of(int part_number, std::int64_t one) {
    const auto [at, is_new] = numbers_.emplace(std::pair(part_number, one), numbers_.size());
    if (!is_new) return at->second;
    const Part& part = topology_.parts[static_cast<std::size_t>(part_number)];
    const std::int64_t host = part.in_host() ? one / part.count : -1;
    const bool device = &part == &topology_.devices();
    const std::int64_t rank = device ? topology_.first_rank(static_cast<int>(host)) + one % part.count : -1;
    nodes_.push_back({part.name, part_number, host, rank});
    return at->second;
  }

  const Topology& topology_;
  std::map<std::pair<int, std::int64_t>, std::size_t> numbers_;  // by part and one of it
  std::map<std::int64_t, std::size_t> links_;
  Json nodes_ = Json::array(), json_of_links_ = Json::array();
  Parts ups_, downs_;
};

}  // namespace

Json cluster_json(const Topology& topology, int ranks, const std::set<std::pair<int, int>>& edges) {
  ClusterMap map(topology, ranks);
  topology::Router router(topology);
  Packed routes(4);
  for (const auto& [from, to] : edges) {
    const auto [up, down] = map.way(router.route(from, to));
    routes.add({from, to, up, down});
  }
  return {{"name", topology.name}, {"nodes", map.nodes()}, {"links", map.links()},
          {"ups", map.ups()},      {"downs", map.downs()}, {"routes", routes.numbers()}};
}

}  // namespace tutti::view
