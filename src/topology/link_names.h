// Links as people name them, in the words that topology.h has for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace tutti::topology {

// "gpu 3 of host 1 to nvswitch 0 of host 1": that direction. "gpu 3 of host 1 and nvswitch 0 of host 1": both. Throws
// Error(invalid_argument), with the names there are.
std::vector<std::int64_t> find_links(const Topology& topology, const std::string& words);

}  // namespace tutti::topology
