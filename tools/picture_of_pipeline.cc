// A pipeline as it plays: stages downwards, time to the right, a box for every action.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strategy/pipeline_text.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using strategy::PipelineWork;

constexpr double kLeft = 80, kTop = 74, kRow = 30, kBox = 24, kBottom = 44;
constexpr std::size_t kMostBoxes = 40000;

struct Paint {
  std::array<int, 3> light, dark;
};

// Chunks of a stage differ in shade, works in colour.
std::string fill_of(const strategy::PipelineShape& shape, const strategy::PipelineAction& action) {
  static constexpr Paint kPaints[] = {{{196, 220, 240}, {120, 165, 210}},
                                      {{205, 232, 205}, {130, 190, 135}},
                                      {{205, 232, 205}, {130, 190, 135}},
                                      {{250, 226, 190}, {235, 180, 110}}};
  const Paint& paint = kPaints[static_cast<std::size_t>(action.work)];
  const double share = shape.chunks > 1 ? static_cast<double>(action.chunk) / (shape.chunks - 1) : 0;
  const auto mixed = [&](std::size_t i) {
    return static_cast<int>(std::lround(paint.light[i] + share * (paint.dark[i] - paint.light[i])));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2));
}

}  // namespace

std::string picture_of(const strategy::PipelineShape& shape, const strategy::PlayedPipeline& played) {
  std::size_t boxes = 0;
  for (const auto& stage : played.stages) boxes += stage.size();
  if (boxes > kMostBoxes)
    refuse(fmt::format("a picture of {} actions is more than anybody could look at; draw fewer stages or micro-batches",
                       boxes));
  const double unit = 26, width = kLeft + unit * played.span + 20;
  Svg svg(std::max(width, 560.0), kTop + kRow * shape.stages + kBottom);
  svg.text({20, 26},
           fmt::format("{}: {} stages, {} micro-batches{}", name_of(shape.schedule), shape.stages, shape.microbatches,
                       shape.chunks > 1 ? fmt::format(", {} chunks on every stage", shape.chunks) : ""),
           {15, Svg::Anchor::start, "#222222", true, 0});
  svg.text({20, 48}, fmt::format("takes {:.4g}, of which {:.4g} are work: a bubble of {:.1f} %", played.span,
                                 played.work, 100 * played.bubble()));
  for (int stage = 0; stage < shape.stages; ++stage) {
    const double y = kTop + kRow * stage;
    svg.text({20, y + kBox / 2 + 4}, fmt::format("stage {}", stage));
    svg.box({kLeft, y, unit * played.span, kBox}, "#f3f3f3", "waits");
    for (const strategy::PlayedAction& done : played.stages[static_cast<std::size_t>(stage)]) {
      const double x = kLeft + unit * done.begin, wide = unit * (done.end - done.begin);
      svg.box(
          {x, y, wide, kBox}, fill_of(shape, done.action),
          fmt::format("stage {}: {}, from {:.4g} to {:.4g}", stage, in_words(shape, done.action), done.begin, done.end),
          "#666666");
      svg.text({x + wide / 2, y + kBox / 2 + 4}, std::to_string(done.action.microbatch), {11, Svg::Anchor::middle});
    }
  }
  double x = kLeft;
  const double y = kTop + kRow * shape.stages + 10;
  std::array<bool, 4> seen{};
  for (const auto& done : played.stages.front()) seen[static_cast<std::size_t>(done.action.work)] = true;
  for (std::size_t work = 0; work < seen.size(); ++work) {
    if (!seen[work]) continue;
    const strategy::PipelineAction action{static_cast<PipelineWork>(work), 0, 0};
    svg.box({x, y, 16, 14}, fill_of(shape, action), {}, "#666666");
    svg.text({x + 22, y + 11}, name_of(action.work));
    x += 130;
  }
  return svg.str();
}

}  // namespace tutti::tools
