#include "strategy/pipeline_play.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace tutti::strategy {
namespace {

using train::PipelineSchedule;

// Messages of a kind from one stage to another: when each end started which of them.
struct EdgeTimes {
  std::vector<double> sends, receives;
};

class PipelinePlayer {
 public:
  PipelinePlayer(const std::vector<PipelineProgram>& programs, const PipelineTimes& times, PipelineSends sends)
      : programs_(programs), times_(times), block_(sends == PipelineSends::block), stages_(programs.size()) {
    played_.stages.resize(programs.size());
  }

  PlayedPipeline play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        while (stages_[stage].step < programs_[stage].size() && advance(static_cast<int>(stage))) moved = true;
      }
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) finish(static_cast<int>(stage));
    return std::move(played_);
  }

 private:
  struct Stage {
    std::size_t step = 0;
    bool started = false;  // the batch of this step
    double now = 0, work = 0;
    std::size_t awaited = 0;                                // of this step's receives
    std::deque<const PipelineMessage*> receives;            // that were not waited for
    std::map<const PipelineMessage*, std::size_t> numbers;  // of its messages, on their edges
    // The last send of each kind to each peer.
    std::map<std::pair<int, PipelineMessage::Cargo>, const PipelineMessage*> under_way;
    const PipelineMessage* waits_for = nullptr;
  };

  EdgeTimes& edge_of(int stage, const PipelineMessage& message) {
    return message.sends ? edges_[{stage, message.peer, message.cargo}] : edges_[{message.peer, stage, message.cargo}];
  }

  // Waits for a message that this stage has started; false where its peer has not.
  bool wait_for(int stage, const PipelineMessage& message) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    const EdgeTimes& edge = edge_of(stage, message);
    const std::size_t number = own.numbers.at(&message);
    own.waits_for = &message;
    if (number >= edge.sends.size() || number >= edge.receives.size()) return false;
    own.now = std::max(own.now, std::max(edge.sends[number], edge.receives[number]) + times_.message);
    own.waits_for = nullptr;
    return true;
  }

  bool start(int stage, const std::vector<PipelineMessage>& batch) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    for (const PipelineMessage& message : batch) {
      const auto before = own.under_way.find({message.peer, message.cargo});
      if (message.sends && before != own.under_way.end() && !wait_for(stage, *before->second)) return false;
    }
    for (const PipelineMessage& message : batch) {
      EdgeTimes& edge = edge_of(stage, message);
      std::vector<double>& started = message.sends ? edge.sends : edge.receives;
      own.numbers[&message] = started.size();
      started.push_back(own.now);
      if (message.sends)
        own.under_way[{message.peer, message.cargo}] = &message;
      else
        own.receives.push_back(&message);
    }
    return own.started = true;
  }

  // Takes a stage further; false where it waits for a peer.
  bool advance(int stage) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    const PipelineStep& step = programs_[static_cast<std::size_t>(stage)][own.step];
    if (!own.started) return start(stage, step.batch);
    for (const PipelineMessage& message : step.batch)
      if (block_ && !wait_for(stage, message)) return false;
    for (; own.awaited < step.awaits; ++own.awaited, own.receives.pop_front())
      if (!wait_for(stage, *own.receives.front())) return false;
    if (step.action) {
      const double begin = own.now, takes = times_.of(stage, step.action->work);
      own.now += takes;
      own.work += takes;
      played_.stages[static_cast<std::size_t>(stage)].push_back({*step.action, begin, own.now});
    }
    ++own.step;
    own.awaited = 0;
    own.started = false;
    return true;
  }

  void finish(int stage) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    for (const auto& [edge, message] : own.under_way) {
      if (own.waits_for == nullptr) static_cast<void>(wait_for(stage, *message));
    }
    if (own.waits_for != nullptr) played_.waiting.push_back({stage, own.step, *own.waits_for});
    played_.span = std::max(played_.span, own.now);
    played_.work = std::max(played_.work, own.work);
  }

  const std::vector<PipelineProgram>& programs_;
  const PipelineTimes& times_;
  bool block_;
  std::vector<Stage> stages_;
  std::map<std::tuple<int, int, PipelineMessage::Cargo>, EdgeTimes> edges_;
  PlayedPipeline played_;
};

}  // namespace

double PipelineTimes::of(int stage, PipelineWork work) const {
  const double factor = factors.empty() ? 1 : factors[static_cast<std::size_t>(stage)];
  switch (work) {
    case PipelineWork::forward: return factor * forward;
    case PipelineWork::backward: return factor * backward;
    case PipelineWork::input_gradient: return factor * input_gradient;
    case PipelineWork::weight_gradient: return factor * weight_gradient;
  }
  return 0;
}

PlayedPipeline play_pipeline(const std::vector<PipelineProgram>& programs, const PipelineTimes& times,
                             PipelineSends sends) {
  return PipelinePlayer(programs, times, sends).play();
}

std::optional<double> bubble_by_formula(const PipelineShape& shape, const PipelineTimes& times) {
  const double others = shape.stages - 1, all = static_cast<double>(shape.microbatches) * shape.chunks;
  if (shape.schedule != PipelineSchedule::zb_h1) return others / all;
  if (shape.microbatches < shape.stages) return std::nullopt;
  const double work = times.forward + times.input_gradient + times.weight_gradient;
  return others * (work - 2 * times.weight_gradient) / (all * work);
}

std::string bubble_formula(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::one_f_one_b: return "(p - 1) / m";
    case PipelineSchedule::interleaved: return "(p - 1) / (v m)";
    case PipelineSchedule::zb_h1: return "(p - 1) (F + I - W) / (m (F + I + W))";
  }
  return "";
}

}  // namespace tutti::strategy
