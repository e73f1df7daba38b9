// Behind train::Pipeline: a stage's program (strategy/pipeline.h) run over messages.
//
// Messages of a kind have a tag of their own, so that they are matched in order, as the verifier supposes. The first
// activation of a boundary is preceded by its type and shape; its receiver starts to receive these in the place of the
// activation, and the activation itself once it waits for it, so that nothing waits that the schedule does not wait
// for.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "strategy/pipeline.h"
#include "train/array_pool.h"
#include "tutti/train/pipeline.h"

namespace tutti::train {

class PipelineRunner {
 public:
  PipelineRunner(Communicator& stages, PipelineEngine engine, const PipelineOptions& options);
  ~PipelineRunner();
  PipelineRunner(const PipelineRunner&) = delete;
  PipelineRunner& operator=(const PipelineRunner&) = delete;

  void step() { run_all(training_); }
  void evaluate();
  void reduce_tied(const Request& request);

  const strategy::PipelineShape& shape() const { return shape_; }
  int stage() const { return stage_; }
  const PipelineOptions& options() const { return options_; }
  Sentence sentence() const;
  Counters counters() const;

 private:
  using Message = strategy::PipelineMessage;
  using Cargo = Message::Cargo;
  using Crossing = std::tuple<Cargo, int, int>;  // micro-batch, boundary
  static constexpr std::size_t kMostExtents = 8;
  using ShapeWords = std::array<std::int64_t, 2 + kMostExtents>;  // type, number of extents, extents

  struct Outgoing {
    PipelineArray array;
    Work work;
  };
  struct Incoming {
    Message message;
    PipelineArray array;  // empty while its shape is not known
    ShapeWords words{};
    Work work;
  };
  // Of a boundary that this stage is at.
  struct Boundary {
    std::optional<ArrayShape> shape;
    ShapeWords words{};
    bool told = false;
  };
  // What steps run, or evaluations, and the shapes that cross boundaries in these.
  struct Pass {
    strategy::PipelineProgram program;
    std::vector<Boundary> boundaries;
  };

  void check_settings(const PipelineEngine& engine) const;
  void check_alike();

  void run_all(Pass& pass);
  void run();
  void start(const std::vector<Message>& batch);
  void start_receive(const Message& message, std::vector<Request>& requests, std::vector<Work*>& works);
  void start_send(const Message& message, std::vector<Request>& requests, std::vector<Work*>& works);
  static Request shape_receive(Incoming& incoming);
  static Request receive_of(const Incoming& incoming);
  void await();
  void act(const strategy::PipelineAction& action);
  PipelineArray call_engine(const strategy::PipelineAction& action, const PipelineArray& input);
  PipelineArray input_of(const strategy::PipelineAction& action, int place);
  void keep_output(const strategy::PipelineAction& action, int place, PipelineArray output);
  void require_fits(const strategy::PipelineAction& action, int number, const PipelineArray& made);
  void learn_shape(int number, const ShapeWords& words);
  PipelineArray memory_for(const ArrayShape& shape);
  // All ranks throw what one of them failed with.
  void leave();
  [[noreturn]] void part(const Error& error, bool own);

  Boundary& boundary(int number) { return pass_->boundaries[static_cast<std::size_t>(number)]; }
  int stage_of(int place) const { return place % shape_.stages; }

  Communicator comm_, parting_;
  std::optional<Communicator> ends_;  // the first stage and the last one, where they are two; others have none
  PipelineEngine engine_;
  PipelineOptions options_;
  strategy::PipelineShape shape_;
  int stage_;
  Pass training_, evaluation_;
  Pass* pass_ = &training_;  // that runs
  ArrayPool pool_;
  std::map<Crossing, PipelineArray> made_;           // to be sent, or used on this stage
  std::map<std::pair<int, Cargo>, Outgoing> sends_;  // the last of each kind to each stage
  std::deque<Incoming> receives_;
  std::deque<Work> tellings_;  // shapes on their way
  PipelineArray received_;     // what the next action takes
  std::optional<std::string> broken_;
  bool engine_failed_ = false;
};

}  // namespace tutti::train
