#include "strategy/pipeline_sentence.h"

namespace tutti::strategy {

train::Sentence sentence_of(const PipelineShape& shape, int stage, std::span<const std::uint64_t> bytes) {
  train::Sentence sentence;
  const auto times = static_cast<std::uint64_t>(shape.microbatches);
  for (std::size_t boundary = 0; boundary < bytes.size(); ++boundary) {
    const int before = static_cast<int>(boundary) % shape.stages, behind = (before + 1) % shape.stages;
    if (before == behind) continue;  // on one stage
    const auto say = [&](const std::string& what) {
      sentence.push_back({Verb::send_recv, what, bytes[boundary], times, 2});
    };
    if (stage == before) {
      say("activations to stage " + std::to_string(behind));
      say("gradients from stage " + std::to_string(behind));
    }
    if (stage == behind) {
      say("activations from stage " + std::to_string(before));
      say("gradients to stage " + std::to_string(before));
    }
  }
  sentence.push_back({Verb::all_gather, "whether all stages have ended well",
                      static_cast<std::uint64_t>(shape.stages) * kOutcomeBytes, 1, shape.stages});
  return sentence;
}

}  // namespace tutti::strategy
