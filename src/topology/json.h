// The JSON form of a cluster, for scripts that make or read one; people write the text form (text.h). Strict, lossless:
// topology_from_json(to_json(topology)) == topology.
//
//   { "topology": "mine", "hosts": 2, "ranks": 16,                      ranks follow from the rest, and may be left out
//     "parts": [ { "kind": "device", "name": "gpu", "count": 8 },
//                { "kind": "switch", "name": "leaf", "count": 8, "per_hosts": 32 }, ... ],   per_hosts, if any
//     "links": [ { "lower": "gpu", "upper": "leaf", "pattern": "each",
//                  "up": { "bytes_per_s": 5e10, "latency_s": 1e-6 }, "down": { ... } }, ... ] }
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.h"

namespace tutti::topology {

std::string to_json(const Topology& topology);
// Throws Error(invalid_argument): "FILE:3:7: ..." where it is no JSON, "FILE:3:7: links[2].up: ..." where it is no
// cluster.
Topology topology_from_json(std::string_view text, const std::string& file);

}  // namespace tutti::topology
