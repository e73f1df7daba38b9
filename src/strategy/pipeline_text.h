// A played pipeline as text: a line for every stage, time to the right.
//
//   stage 0  F0 F1 F2 .. .. .. B0----- ...
//   stage 1  .. F0 F1 .. ..
#pragma once

#include <cstddef>
#include <string>

#include "strategy/pipeline_play.h"

namespace tutti::strategy {

// "F3"; with several chunks "F3a" and "F3b" are of chunks 0 and 1.
std::string label_of(const PipelineShape& shape, const PipelineAction& action);

// Columns that the drawing takes.
std::size_t columns_of(const PipelineShape& shape, const PlayedPipeline& played);
std::string draw_pipeline(const PipelineShape& shape, const PlayedPipeline& played);
// What there is to say of it in numbers: how long it takes, the bubble with its formula, what stages keep and send.
std::string describe_pipeline(const PipelineShape& shape, const PipelineTimes& times, const PlayedPipeline& played);

}  // namespace tutti::strategy
