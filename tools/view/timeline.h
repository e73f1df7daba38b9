// A simulated call for the page: what ranks did when, in microseconds. Pure.
//
//   { "topology": "dgx-h100:1", "us": 41.5,
//     "activities": [[kind (0 computes, 1 sends), begin, end, lane, step, segment, rank, peer, rank, peer, ...]],
//     "path": [[rank, lane, step, segment, fired]],                                            the critical path
//     "links": [[words, bytes, utilisation]] }                                                 the busiest first
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "schedule/readers/simulate/simulate.h"
#include "topology/topology.h"

namespace tutti::view {

nlohmann::ordered_json timeline_json(const schedule::Simulated& simulated, const topology::Topology& topology);

}  // namespace tutti::view
