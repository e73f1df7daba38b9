// Which pipeline a verb of the command is about, and how it plays.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "strategy/pipeline_play.h"

namespace tutti::tools {

struct RequestedPipeline {
  strategy::PipelineShape shape;
  strategy::PipelineTimes times;
  std::vector<strategy::PipelineProgram> programs;
  std::string problem;  // why it does not verify, and then it was not played; empty: it does
  strategy::PlayedPipeline played;
  std::string priced;  // what a message takes where, for people; empty where no cluster was named
};

struct PipelineRequest {
  std::string schedule = "1f1b";
  strategy::PipelineShape shape{train::PipelineSchedule::one_f_one_b, 4, 8, 1};
  std::optional<int> chunks;
  double message = 0;
  std::string factors;
  // Messages as a cluster takes them, in the place of `message`.
  std::string topology, bytes;
  double forward_ms = 0;
  int apart = 1;

  // Adds the options that fill it.
  void add_to(CLI::App& app);
  // Ends the command, in words, where there is no such pipeline.
  RequestedPipeline play() const;

 private:
  // Seconds of the slowest message between neighbouring stages.
  double message_s(const strategy::PipelineShape& asked) const;
};

// Programs of all stages, with their messages and times.
nlohmann::ordered_json json_of(const RequestedPipeline& pipeline);

}  // namespace tutti::tools
