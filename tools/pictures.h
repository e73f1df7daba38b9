// Pictures, as SVG, of what the commands tell in text.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "schedule/lower.h"
#include "strategy/pipeline_play.h"
#include "topology/machine.h"
#include "topology/topology.h"

namespace tutti::tools {

// Ranks from top to bottom, rounds from left to right, as the player plays them: what each rank holds, and arrows for
// what moves. Ends the command, in words, where that is more than anybody could look at.
std::string picture_of(std::span<const schedule::Lowered> programs);
// The first hosts with their parts, the switches above them, and the links.
std::string picture_of(const topology::Topology& topology);
// The same, where a mesh lies on the devices: by device, its rank and the group that this is of.
struct PlacedRank {
  int rank = 0;
  std::size_t group = 0;
  std::string note;
};
std::string picture_of(const topology::Topology& topology, std::span<const PlacedRank> ranks, const std::string& title);
// Two jobs, their parts as bars in one scale, and in words why the one is quicker.
std::string picture_of(const plan::JobPlan& first, const plan::JobPlan& second, const std::array<std::string, 2>& names,
                       const std::vector<std::string>& why);
// Stages from top to bottom, time from left to right, a box for every action.
std::string picture_of(const strategy::PipelineShape& shape, const strategy::PlayedPipeline& played);
// Boxes in boxes.
std::string picture_of(const topology::MachinePart& machine);

}  // namespace tutti::tools
