// Clusters as people name them on the command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace tutti::tools {

// A preset, with :HOSTS if wanted, or else a file. Throws Error(invalid_argument), or ends the command, in words.
topology::Topology find_topology(const std::string& words);

// Numbers of its parts as they stand one above the other, the devices first: a part is above all that lead to it, and
// switches are above the parts of hosts.
std::vector<std::size_t> parts_from_below(const topology::Topology& topology);

// "450 GB/s", "20.02 ms": four digits are enough for people.
std::string rounded_bandwidth(double bytes_per_s);
std::string rounded_time(double seconds);

}  // namespace tutti::tools
