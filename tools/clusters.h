// Clusters as people name them on the command line.
#pragma once

#include <string>

#include "topology/topology.h"

namespace tutti::tools {

// A preset, with :HOSTS if wanted, or else a file. Throws Error(invalid_argument), or ends the command, in words.
topology::Topology find_topology(const std::string& words);

// "450 GB/s", "20.02 ms": four digits are enough for people.
std::string rounded_bandwidth(double bytes_per_s);
std::string rounded_time(double seconds);

}  // namespace tutti::tools
