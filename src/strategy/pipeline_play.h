// A pipeline played in time: when every action runs, where the stages would wait forever, and how large the bubble is.
// Knows no clock.
//
// Programs have no wildcards, messages of a kind between two stages are matched in order, and a stage's steps run one
// after the other: whatever the timing, the same steps become possible. So one run to its end decides for all timings
// whether there is a deadlock.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategy/pipeline.h"

namespace tutti::strategy {

// How long things take. The unit is the caller's; these are the usual ones, of a forward.
struct PipelineTimes {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
  double message = 0;           // from when both ends have started it to its end
  std::vector<double> factors;  // by stage, where stages are uneven: its actions take so many times as long

  double of(int stage, PipelineWork work) const;
};

// Whether batches end before their action begins, as pairs of blocking calls would: what schedules are not made for.
enum class PipelineSends : std::uint8_t { go_on, block };

struct PlayedAction {
  PipelineAction action;
  double begin = 0, end = 0;
};

// What a stage waits for that cannot come.
struct StuckStage {
  int stage = 0;
  std::size_t step = 0;
  PipelineMessage message;  // a receive, or a send that is to end first

  bool operator==(const StuckStage&) const = default;
};

struct PlayedPipeline {
  std::vector<std::vector<PlayedAction>> stages;
  double span = 0;                  // when the last stage has ended
  double work = 0;                  // of the stage that has most of it: what no schedule is quicker than
  std::vector<StuckStage> waiting;  // none where all came to their end

  // Time that the busiest stage idles, over its work.
  double bubble() const { return work > 0 ? (span - work) / work : 0; }
};

// Messages must match (pipeline_verify.h).
PlayedPipeline play_pipeline(const std::vector<PipelineProgram>& programs, const PipelineTimes& times,
                             PipelineSends sends = PipelineSends::go_on);

// The same by its formula, of even stages whose messages take no time; none for zb-h1 with fewer micro-batches than
// stages.
std::optional<double> bubble_by_formula(const PipelineShape& shape, const PipelineTimes& times);
// That formula, for people.
std::string bubble_formula(train::PipelineSchedule schedule);

}  // namespace tutti::strategy
