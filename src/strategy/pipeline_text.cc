#include "strategy/pipeline_text.h"

#include <algorithm>
#include <cmath>

#include "base/formatted.h"

namespace tutti::strategy {
namespace {

// Of a unit of time: the longest label, and a blank behind it.
std::size_t unit_columns(const PipelineShape& shape) {
  return 1 + label_of(shape, {PipelineWork::forward, shape.microbatches - 1, shape.chunks - 1}).size();
}

std::string name_of_stage(const PipelineShape& shape, int stage) {
  const std::size_t digits = std::to_string(shape.stages - 1).size();
  return formatted("stage %*d  ", static_cast<int>(digits), stage);
}

std::string many(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

std::string label_of(const PipelineShape& shape, const PipelineAction& action) {
  std::string label = letter_of(action.work) + std::to_string(action.microbatch);
  if (shape.chunks > 1)
    label +=
        shape.chunks <= 26 ? std::string(1, static_cast<char>('a' + action.chunk)) : "." + std::to_string(action.chunk);
  return label;
}

std::size_t columns_of(const PipelineShape& shape, const PlayedPipeline& played) {
  return name_of_stage(shape, 0).size() +
         static_cast<std::size_t>(std::llround(played.span * static_cast<double>(unit_columns(shape))));
}

std::string draw_pipeline(const PipelineShape& shape, const PlayedPipeline& played) {
  const std::size_t unit = unit_columns(shape), first = name_of_stage(shape, 0).size();
  std::string drawing;
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::string line = name_of_stage(shape, stage);
    line.resize(columns_of(shape, played), ' ');
    for (std::size_t at = first; at < line.size(); ++at)
      if ((at - first) % unit != unit - 1) line[at] = '.';
    for (const PlayedAction& done : played.stages[static_cast<std::size_t>(stage)]) {
      const auto column = [&](double time) {
        return first + static_cast<std::size_t>(std::llround(time * static_cast<double>(unit)));
      };
      std::string bar = label_of(shape, done.action);
      bar.resize(std::max(bar.size() + 1, column(done.end) - column(done.begin)) - 1, '-');
      bar += ' ';
      line.replace(column(done.begin), bar.size(), bar);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    drawing += line + "\n";
  }
  return drawing;
}

std::string describe_pipeline(const PipelineShape& shape, const PipelineTimes& times, const PlayedPipeline& played) {
  std::string text = std::string(name_of(shape.schedule)) + ": " +
                     many(static_cast<std::size_t>(shape.stages), "stage") + ", " +
                     many(static_cast<std::size_t>(shape.microbatches), "micro-batch");
  if (shape.microbatches > 1) text.replace(text.size() - 1, 1, "es");
  if (shape.chunks > 1) text += formatted(", %d chunks of the model on every stage", shape.chunks);
  text += formatted("\n  takes       %.4g forwards%s, of which %.4g are work", played.span,
                    shape.chunks > 1 ? " of a chunk" : "", played.work);
  if (!times.factors.empty()) text += " of the busiest stage";
  text += formatted("\n  bubble      %.1f %% of the work, %.1f %% of the step", 100 * played.bubble(),
                    played.span > 0 ? 100 * (played.span - played.work) / played.span : 0);
  const std::optional<double> expected = bubble_by_formula(shape, times);
  if (expected && times.factors.empty() && times.message == 0)
    text += formatted("; by its formula %s: %.1f %%", bubble_formula(shape.schedule).c_str(), 100 * *expected);
  text += "\n  activations";
  std::size_t messages = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    text += formatted(" %d", activations_held(shape, stage));
    for (const PipelineStep& step : pipeline_program(shape, stage)) {
      messages += static_cast<std::size_t>(std::count_if(step.batch.begin(), step.batch.end(),
                                                         [](const PipelineMessage& message) { return message.sends; }));
    }
  }
  text += shape.chunks > 1 ? ": micro-batches times chunks that stages keep at most"
                           : ": micro-batches whose activations stages keep at most";
  return text + "\n  messages    " + std::to_string(messages) + " in a step, half of them activations\n";
}

}  // namespace tutti::strategy
