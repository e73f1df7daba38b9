// The cluster that a collective would run on, for the page: parts, links, and the way of every message. Pure.
//
//   { "name": "dgx-h100", "nodes": [[name, level, host or -1, rank or -1]],          what ways lead over, from below
//     "links": [[lower node, upper node, bytes per second, words]],
//     "ups": [[2 * link, ...]], "downs": [[2 * link + 1, ...]],                 links that lead up, and down, in order
//     "routes": [from, to, up, down, ...] }                           one of each; rows of 4, packed as packed.h has it
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "topology/topology.h"

namespace tutti::view {

// `edges`: (from, to), ranks of the topology. Throws Error(invalid_argument) where there is no way.
nlohmann::ordered_json cluster_json(const topology::Topology& topology, int ranks,
                                    const std::set<std::pair<int, int>>& edges);

}  // namespace tutti::view
