// The verifier of pipelines: proves of the programs of all stages, for every timing,
//   - every micro-batch goes forward once through every place, and backward once: in one, or as input and weight
//     gradient, in this order, behind its forward;
//   - an action has what it needs, which its stage received or made before, and sends what it has made; every message
//     is received as what it was sent as;
//   - no stages wait for each other: with sends that last until they are received (pipeline.h);
//   - no stage keeps activations of more micro-batches than is stated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategy/pipeline.h"

namespace tutti::strategy {

// What is wrong, in one line, and how it comes to that: a few lines, or none.
struct PipelineProblem {
  enum class Kind : std::uint8_t { malformed, order, missing, unmatched, deadlock, memory };
  Kind kind = Kind::malformed;
  std::string message;
  std::vector<std::string> story = {};
};

// The message, and the story below it, a line each.
std::string text_of(const PipelineProblem& problem);

// The first problem; nothing where all is proven. `held` states activations by stage.
std::optional<PipelineProblem> verify_pipeline(const PipelineShape& shape, const std::vector<PipelineProgram>& programs,
                                               const std::vector<int>& held);
// The same with what activations_held() states.
std::optional<PipelineProblem> verify_pipeline(const PipelineShape& shape,
                                               const std::vector<PipelineProgram>& programs);
// The same of programs without backwards, which keep nothing.
std::optional<PipelineProblem> verify_forwards(const PipelineShape& shape,
                                               const std::vector<PipelineProgram>& programs);

}  // namespace tutti::strategy
