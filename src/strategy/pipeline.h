// A pipeline as pure data: what every stage computes and sends, in order. Generators of the schedules that
// train::PipelineSchedule names; pipeline_verify.h proves them, pipeline_play.h times them, train::Pipeline runs them.
//
// A model is cut into *places*, one behind the other; place q lies on stage q mod p, as its chunk q / p. With one chunk
// on every stage, places are stages. *Boundary* b lies between places b and b + 1: activations cross it forwards,
// gradients backwards.
//
//   2 stages, 2 chunks         stage 0          stage 1
//     chunk 0                  place 0  --0-->  place 1
//                                 .---1---------'
//     chunk 1                  place 2  --2-->  place 3
//
// A stage's program is a list of steps. A step first starts its *batch* of messages, all together: what the action
// before has made is sent, and what the action behind this one needs is received, while this one computes. Then it
// waits for what its own action needs, the oldest of the receives that nothing waited for yet, and the action runs.
// Sends go on meanwhile: one lasts until the peer has started to receive it (rendezvous), and a batch that sends the
// same kind of thing to the same peer first waits for the one before, so that a stage never has more than one
// activation and one gradient under way to a neighbour. Messages of a kind from one stage to another are matched in
// order.
//
// If batches were to end before the action runs, as pairs of blocking calls do, interleaved stages would wait for each
// other forever, and zb-h1 would lose what it gains: pipeline_test.cc shows both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/train/pipeline_schedule.h"

namespace tutti::strategy {

struct PipelineShape {
  train::PipelineSchedule schedule = train::PipelineSchedule::one_f_one_b;
  int stages = 1, microbatches = 1;
  int chunks = 1;  // of the model on every stage; more than one for interleaved only

  int places() const { return stages * chunks; }
  bool operator==(const PipelineShape&) const = default;
};

// backward is input_gradient and weight_gradient in one; a schedule has either.
// X(name, words, letter)
#define PIPELINE_WORKS(X)                  \
  X(forward, "forward", 'F')               \
  X(backward, "backward", 'B')             \
  X(input_gradient, "input gradient", 'I') \
  X(weight_gradient, "weight gradient", 'W')

enum class PipelineWork : std::uint8_t {
#define X(name, words, letter) name,
  PIPELINE_WORKS(X)
#undef X
};

constexpr std::string_view name_of(PipelineWork work) {
  constexpr std::string_view kNames[] = {
#define X(name, words, letter) words,
      PIPELINE_WORKS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(work)];
}

constexpr char letter_of(PipelineWork work) {
  constexpr char kLetters[] = {
#define X(name, words, letter) letter,
      PIPELINE_WORKS(X)
#undef X
  };
  return kLetters[static_cast<std::size_t>(work)];
}

struct PipelineAction {
  PipelineWork work = PipelineWork::forward;
  int microbatch = 0, chunk = 0;

  bool operator==(const PipelineAction&) const = default;
};

struct PipelineMessage {
  enum class Cargo : std::uint8_t { activation, gradient };
  bool sends = true;  // else receives
  Cargo cargo = Cargo::activation;
  int peer = 0;  // a stage
  int microbatch = 0, boundary = 0;

  bool operator==(const PipelineMessage&) const = default;
};

struct PipelineStep {
  std::vector<PipelineMessage> batch;
  std::size_t awaits = 0;                // receives, the oldest first
  std::optional<PipelineAction> action;  // none at the end, where something is left to send

  bool operator==(const PipelineStep&) const = default;
};
using PipelineProgram = std::vector<PipelineStep>;

// Throws Error(invalid_argument) where there is no such pipeline, with what to change.
void require_possible(const PipelineShape& shape);

// What a stage does; other stages' programs are not looked at. The shape is possible.
PipelineProgram pipeline_program(const PipelineShape& shape, int stage);
std::vector<PipelineProgram> pipeline_programs(const PipelineShape& shape);
// The same without backwards: every micro-batch goes through all places, and that is all.
PipelineProgram forward_program(const PipelineShape& shape, int stage);
std::vector<PipelineProgram> forward_programs(const PipelineShape& shape);
// The same of any order of actions: the messages that join them. Receives start so many actions ahead.
PipelineProgram with_messages(const PipelineShape& shape, int stage, const std::vector<PipelineAction>& actions,
                              std::size_t ahead = 1);

// Forwards whose backward has not ended, at most, on a stage: what it keeps activations of.
int activations_held(const PipelineShape& shape, int stage);

std::string stage_in_words(int stage);
// "backward of micro-batch 3", and "... on chunk 1" where there are several.
std::string in_words(const PipelineShape& shape, const PipelineAction& action);
// "the gradient of micro-batch 3", and "... across boundary 5" where there are several chunks.
std::string in_words(const PipelineShape& shape, const PipelineMessage& message);

}  // namespace tutti::strategy
