// What a stage of a pipeline says in a step, by formula: what its communicator counts must equal this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "strategy/pipeline.h"
#include "tutti/train/report.h"

namespace tutti::strategy {

// How a stage has ended: the length of its error's words, 0 for none, and the error's code.
inline constexpr std::size_t kOutcomeBytes = 2 * sizeof(std::uint32_t);

// `bytes` of an activation, by boundary: all places() - 1 of them, though only those at this stage are looked at.
// Behind its messages a stage tells all others how it has ended.
train::Sentence sentence_of(const PipelineShape& shape, int stage, std::span<const std::uint64_t> bytes);

}  // namespace tutti::strategy
