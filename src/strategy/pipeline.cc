#include "strategy/pipeline.h"

#include <algorithm>

#include "tutti/error.h"

namespace tutti::strategy {
namespace {

using train::PipelineSchedule;
using Actions = std::vector<PipelineAction>;
using Cargo = PipelineMessage::Cargo;

// Forwards before the first backward of a stage.
int warm_up(const PipelineShape& shape, int stage) {
  const int all = shape.microbatches * shape.chunks, behind = shape.stages - stage - 1;
  switch (shape.schedule) {
    case PipelineSchedule::gpipe: return all;
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::zb_h1: return std::min(all, behind);
    case PipelineSchedule::interleaved: return std::min(all, 2 * behind + (shape.chunks - 1) * shape.stages);
  }
  return all;
}

// The k-th forward of a stage, or its k-th backward: as many micro-batches as there are stages go through one chunk,
// then through the next one. With one chunk that is k itself.
PipelineAction turn(const PipelineShape& shape, PipelineWork work, int k) {
  const int round = shape.stages * shape.chunks, within = k % round, chunk = within / shape.stages;
  if (shape.chunks == 1) return {work, k, 0};
  const bool forward = work == PipelineWork::forward;
  return {work, k / round * shape.stages + within % shape.stages, forward ? chunk : shape.chunks - 1 - chunk};
}

//   4 stages, 4 micro-batches, stage 2 of zb-h1:   F0 F1 I0 F2 I1 F3 I2 W0 I3 W1 W2 W3
//
// Weight gradients lag so many input gradients behind as there are stages before: those wait for nothing but this.
Actions actions_of(const PipelineShape& shape, int stage) {
  const int all = shape.microbatches * shape.chunks, ahead = warm_up(shape, stage);
  const bool splits = shape.schedule == PipelineSchedule::zb_h1;
  const int lag = splits ? stage : 0;
  Actions actions;
  for (int k = 0; k < ahead; ++k) actions.push_back(turn(shape, PipelineWork::forward, k));
  for (int k = 0; k < all; ++k) {
    if (ahead + k < all) actions.push_back(turn(shape, PipelineWork::forward, ahead + k));
    actions.push_back(turn(shape, splits ? PipelineWork::input_gradient : PipelineWork::backward, k));
    if (splits && k >= lag) actions.push_back(turn(shape, PipelineWork::weight_gradient, k - lag));
  }
  for (int k = std::max(0, all - lag); splits && k < all; ++k)
    actions.push_back(turn(shape, PipelineWork::weight_gradient, k));
  return actions;
}

// What an action takes from another stage (sends = false), or makes for one (sends = true).
std::optional<PipelineMessage> message_of(const PipelineShape& shape, int stage, const PipelineAction& action,
                                          bool sends) {
  if (action.work == PipelineWork::weight_gradient) return std::nullopt;
  const int place = action.chunk * shape.stages + stage;
  const bool forward = action.work == PipelineWork::forward;
  const bool upwards = forward == sends;  // to or from the place behind this one
  const int boundary = upwards ? place : place - 1, other = upwards ? place + 1 : place - 1;
  if (other < 0 || other >= shape.places() || other % shape.stages == stage) return std::nullopt;
  return PipelineMessage{sends, forward ? Cargo::activation : Cargo::gradient, other % shape.stages, action.microbatch,
                         boundary};
}

std::vector<PipelineProgram> of_all_stages(const PipelineShape& shape,
                                           PipelineProgram (*program)(const PipelineShape&, int)) {
  std::vector<PipelineProgram> programs;
  for (int stage = 0; stage < shape.stages; ++stage) programs.push_back(program(shape, stage));
  return programs;
}

std::string of_microbatch(int microbatch) { return " of micro-batch " + std::to_string(microbatch); }

}  // namespace

void require_possible(const PipelineShape& shape) {
  const auto refuse = [](const std::string& words) { throw Error(ErrorCode::invalid_argument, words); };
  const std::string name(name_of(shape.schedule));
  const auto at_least_one = [&](int number, std::string_view what) {
    if (number < 1)
      refuse("a pipeline of " + std::to_string(number) + " " + std::string(what) + ": there is one at least");
  };
  at_least_one(shape.stages, "stages");
  at_least_one(shape.microbatches, "micro-batches");
  at_least_one(shape.chunks, "chunks on a stage");
  const bool interleaves = shape.schedule == PipelineSchedule::interleaved;
  if (!interleaves && shape.chunks > 1) {
    refuse(name + " with " + std::to_string(shape.chunks) + " chunks on every stage: it has one; take the schedule " +
           std::string(name_of(PipelineSchedule::interleaved)) + " for several");
  }
  if (interleaves && shape.microbatches % shape.stages != 0) {
    const int next = (shape.microbatches / shape.stages + 1) * shape.stages;
    refuse(name + " with " + std::to_string(shape.microbatches) + " micro-batches on " + std::to_string(shape.stages) +
           " stages: micro-batches go round by stages, so their number is a multiple of it; take " +
           std::to_string(next) + ", or another schedule");
  }
}

PipelineProgram with_messages(const PipelineShape& shape, int stage, const Actions& actions, std::size_t ahead) {
  PipelineProgram program;
  std::vector<PipelineMessage> batch;
  const auto add = [&](const std::optional<PipelineMessage>& message) {
    if (message) batch.push_back(*message);
  };
  std::size_t started = 0;  // actions whose receive was
  for (std::size_t i = 0; i < actions.size(); ++i) {
    for (; started <= std::min(i + ahead, actions.size() - 1); ++started)
      add(message_of(shape, stage, actions[started], false));
    const bool awaits = message_of(shape, stage, actions[i], false).has_value();
    program.push_back({std::move(batch), awaits ? std::size_t{1} : 0, actions[i]});
    batch.clear();
    add(message_of(shape, stage, actions[i], true));
  }
  if (!batch.empty()) program.push_back({std::move(batch), 0, std::nullopt});
  return program;
}

PipelineProgram pipeline_program(const PipelineShape& shape, int stage) {
  return with_messages(shape, stage, actions_of(shape, stage));
}

PipelineProgram forward_program(const PipelineShape& shape, int stage) {
  Actions actions;
  for (int k = 0; k < shape.microbatches * shape.chunks; ++k) actions.push_back(turn(shape, PipelineWork::forward, k));
  return with_messages(shape, stage, actions);
}

std::vector<PipelineProgram> pipeline_programs(const PipelineShape& shape) {
  return of_all_stages(shape, pipeline_program);
}

std::vector<PipelineProgram> forward_programs(const PipelineShape& shape) {
  return of_all_stages(shape, forward_program);
}

int activations_held(const PipelineShape& shape, int stage) {
  const int all = shape.microbatches * shape.chunks;
  if (shape.schedule == PipelineSchedule::zb_h1) return std::min(all, shape.stages);
  return std::min(all, warm_up(shape, stage) + 1);
}

std::string stage_in_words(int stage) { return "stage " + std::to_string(stage); }

std::string in_words(const PipelineShape& shape, const PipelineAction& action) {
  std::string words(name_of(action.work));
  words += of_microbatch(action.microbatch);
  return shape.chunks == 1 ? words : words + " on chunk " + std::to_string(action.chunk);
}

std::string in_words(const PipelineShape& shape, const PipelineMessage& message) {
  const std::string words =
      (message.cargo == Cargo::activation ? "the activation" : "the gradient") + of_microbatch(message.microbatch);
  return shape.chunks == 1 ? words : words + " across boundary " + std::to_string(message.boundary);
}

}  // namespace tutti::strategy
