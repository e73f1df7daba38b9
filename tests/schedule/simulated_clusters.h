// Clusters and calls that the tests of the simulator share.
#pragma once

#include <cstdint>
#include <string>

#include "base/offers.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/simulate/simulate.h"
#include "topology/text.h"
#include "topology/topology.h"

namespace tutti::schedule {

inline constexpr double kAlpha = 2e-6, kBandwidth = 10e9;

// A switch that is never in the way: each rank has its own link to it.
inline topology::Topology crossbar(int ranks) {
  return topology::parse_topology("topology crossbar\ndevice node " + std::to_string(ranks) +
                                      "\nbridge switch 1\nlink node switch each 10 GB/s 1 us\n",
                                  "crossbar");
}

inline Offers ideal(std::uint64_t segment_bytes = 0) {
  Offers offers;
  offers.inside = {false, false, true, false, 64, 0};
  offers.segment_bytes = segment_bytes;
  offers.channels = 2;
  return offers;
}

inline Simulated run(Verb verb, const char* name, int ranks, SimulateOptions options,
                     const topology::Topology& topology, const Offers& offers = ideal(), int root = 0) {
  return simulate(lower_all(*find_algorithm(verb, name), ranks, offers, root), topology, options);
}

}  // namespace tutti::schedule
