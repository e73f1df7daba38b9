// What a stage of a pipeline says in a step, by formula: what its communicator counts must equal this.
#pragma once

#include <cstdint>
#include <span>

#include "strategy/pipeline.h"
#include "tutti/train/report.h"

namespace tutti::strategy {

// `bytes` of an activation, by boundary: all places() - 1 of them, though only those at this stage are looked at.
train::Sentence sentence_of(const PipelineShape& shape, int stage, std::span<const std::uint64_t> bytes);

}  // namespace tutti::strategy
