// Pictures, as SVG, of what the commands tell in text.
#pragma once

#include <span>
#include <string>

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
// Stages from top to bottom, time from left to right, a box for every action.
std::string picture_of(const strategy::PipelineShape& shape, const strategy::PlayedPipeline& played);
// Boxes in boxes.
std::string picture_of(const topology::MachinePart& machine);

}  // namespace tutti::tools
