#include "strategy/pipeline_verify.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "strategy/pipeline_play.h"

namespace tutti::strategy {
namespace {

using Kind = PipelineProblem::Kind;
using Cargo = PipelineMessage::Cargo;
using Found = std::optional<PipelineProblem>;
// What crosses a boundary: of a micro-batch.
using Crossing = std::tuple<Cargo, int, int>;

// One stage by itself, step by step.
class StageCheck {
 public:
  // `held` states activations; none where there are no backwards to keep them for.
  StageCheck(const PipelineShape& shape, int stage, const PipelineProgram& program, std::optional<int> held)
      : shape_(shape), stage_(stage), program_(program), held_(held) {}

  Found run() {
    for (const PipelineStep& step : program_) {
      for (const PipelineMessage& message : step.batch)
        if (Found found = take(message)) return found;
      if (Found found = await(step.awaits)) return found;
      if (!step.action) continue;
      if (Found found = well_formed(*step.action)) return found;
      if (Found found = in_order(*step.action)) return found;
      if (Found found = supplied(*step.action)) return found;
      if (Found found = keeps(*step.action)) return found;
    }
    return complete();
  }

 private:
  Found problem(Kind kind, const std::string& words) const {
    return PipelineProblem{kind, stage_in_words(stage_) + ": " + words};
  }
  std::string tell(const Crossing& crossing) const {
    const auto& [cargo, microbatch, boundary] = crossing;
    return in_words(shape_, {true, cargo, 0, microbatch, boundary});
  }
  int place_of(const PipelineAction& action) const { return action.chunk * shape_.stages + stage_; }

  Found well_formed(const PipelineAction& action) const {
    const bool known = action.microbatch >= 0 && action.microbatch < shape_.microbatches && action.chunk >= 0 &&
                       action.chunk < shape_.chunks;
    return known ? Found() : problem(Kind::malformed, "there is no " + in_words(shape_, action));
  }

  // A receive brings something; a send takes what was made, once.
  Found take(const PipelineMessage& message) {
    const bool near = message.boundary >= 0 && message.boundary + 1 < shape_.places();
    const bool forwards = message.cargo == Cargo::activation;
    const int own = message.boundary + (forwards == message.sends ? 0 : 1);
    const int other = message.boundary + (forwards == message.sends ? 1 : 0);
    if (!near || own % shape_.stages != stage_ || other % shape_.stages != message.peer || message.peer == stage_) {
      return problem(Kind::malformed, std::string(message.sends ? "sends " : "receives ") + in_words(shape_, message) +
                                          (message.sends ? " to " : " from ") + stage_in_words(message.peer) +
                                          ", which are not on both sides of that boundary");
    }
    const Crossing crossing{message.cargo, message.microbatch, message.boundary};
    if (!message.sends) {
      receives_.push_back(crossing);
      return {};
    }
    if (made_.erase(crossing) == 0)
      return problem(Kind::missing, "sends " + in_words(shape_, message) + ", which it has not made, or sent before");
    return {};
  }

  Found await(std::size_t count) {
    for (; count > 0; --count) {
      if (receives_.empty()) return problem(Kind::malformed, "waits for more than it has started to receive");
      if (!here_.insert(receives_.front()).second)
        return problem(Kind::missing, "receives " + tell(receives_.front()) + " twice");
      receives_.pop_front();
    }
    return {};
  }

  Found in_order(const PipelineAction& action) {
    const auto is_done = [&](PipelineWork work) { return done_.contains({work, action.microbatch, action.chunk}); };
    const auto lacks = [&](PipelineWork work) {
      return problem(Kind::order, in_words(shape_, action) + " comes before its " +
                                      in_words(shape_, {work, action.microbatch, action.chunk}));
    };
    if (is_done(action.work)) return problem(Kind::order, in_words(shape_, action) + " comes twice");
    if (action.work != PipelineWork::forward && !is_done(PipelineWork::forward)) return lacks(PipelineWork::forward);
    if (action.work == PipelineWork::weight_gradient && !is_done(PipelineWork::input_gradient))
      return lacks(PipelineWork::input_gradient);
    const bool also_whole = action.work == PipelineWork::input_gradient && is_done(PipelineWork::backward);
    const bool also_parts = action.work == PipelineWork::backward && is_done(PipelineWork::input_gradient);
    if (also_whole || also_parts)
      return problem(Kind::order, in_words(shape_, action) + " comes besides another backward of it");
    done_.insert({action.work, action.microbatch, action.chunk});
    return {};
  }

  // What comes from the neighbouring place is here, and what is made is to be sent or used by this stage itself.
  Found supplied(const PipelineAction& action) {
    if (action.work == PipelineWork::weight_gradient) return {};
    const int place = place_of(action);
    const bool forward = action.work == PipelineWork::forward;
    const Cargo cargo = forward ? Cargo::activation : Cargo::gradient;
    const int in = forward ? place - 1 : place, out = forward ? place : place - 1;
    const int from = forward ? place - 1 : place + 1, to = forward ? place + 1 : place - 1;
    if (from >= 0 && from < shape_.places()) {
      auto& source = from % shape_.stages == stage_ ? made_ : here_;
      if (source.erase({cargo, action.microbatch, in}) == 0)
        return problem(Kind::missing, in_words(shape_, action) + " lacks " +
                                          in_words(shape_, {false, cargo, 0, action.microbatch, in}) +
                                          ", which this stage neither received nor made before");
    }
    if (to >= 0 && to < shape_.places()) made_.insert({cargo, action.microbatch, out});
    return {};
  }

  Found keeps(const PipelineAction& action) {
    if (!held_) return {};
    if (action.work == PipelineWork::forward) {
      if (++kept_ > *held_)
        return problem(Kind::memory, in_words(shape_, action) + " makes it keep activations of " +
                                         std::to_string(kept_) + " micro-batches; stated are " +
                                         std::to_string(*held_));
    } else if (action.work != PipelineWork::input_gradient) {
      --kept_;
    }
    return {};
  }

  Found complete() const {
    const auto lacks = [&](PipelineWork work, int microbatch, int chunk) {
      return problem(Kind::missing, "never does the " + in_words(shape_, {work, microbatch, chunk}));
    };
    for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
      for (int microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
        const auto is_done = [&](PipelineWork work) { return done_.contains({work, microbatch, chunk}); };
        if (!is_done(PipelineWork::forward)) return lacks(PipelineWork::forward, microbatch, chunk);
        if (!held_ || is_done(PipelineWork::backward)) continue;
        if (!is_done(PipelineWork::input_gradient)) return lacks(PipelineWork::backward, microbatch, chunk);
        if (!is_done(PipelineWork::weight_gradient)) return lacks(PipelineWork::weight_gradient, microbatch, chunk);
      }
    }
    if (!made_.empty()) return problem(Kind::missing, "makes " + tell(*made_.begin()) + " and never sends it");
    if (!here_.empty()) return problem(Kind::missing, "receives " + tell(*here_.begin()) + " and never uses it");
    if (!receives_.empty())
      return problem(Kind::missing, "starts to receive " + tell(receives_.front()) + " and never waits for it");
    return {};
  }

  const PipelineShape& shape_;
  int stage_;
  const PipelineProgram& program_;
  std::optional<int> held_;
  std::set<std::tuple<PipelineWork, int, int>> done_;
  std::deque<Crossing> receives_;   // under way
  std::set<Crossing> here_, made_;  // received, and made, but not used or sent yet
  int kept_ = 0;
};

struct EdgeMessages {
  std::vector<const PipelineMessage*> sent, received;
};

// Both ends of every edge name the same things in the same order.
Found check_matching(const PipelineShape& shape, const std::vector<PipelineProgram>& programs) {
  std::map<std::tuple<int, int, Cargo>, EdgeMessages> edges;
  for (std::size_t at = 0; at < programs.size(); ++at) {
    const int stage = static_cast<int>(at);
    for (const PipelineStep& step : programs[at]) {
      for (const PipelineMessage& message : step.batch) {
        if (message.sends) edges[{stage, message.peer, message.cargo}].sent.push_back(&message);
        if (!message.sends) edges[{message.peer, stage, message.cargo}].received.push_back(&message);
      }
    }
  }
  for (const auto& [edge, messages] : edges) {
    const auto& [from, to, cargo] = edge;
    const std::size_t count = std::max(messages.sent.size(), messages.received.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto tell = [&](const std::vector<const PipelineMessage*>& all) {
        return i < all.size() ? in_words(shape, *all[i]) : std::string("nothing more");
      };
      const std::string sent = tell(messages.sent), received = tell(messages.received);
      const bool alike = i < messages.sent.size() && i < messages.received.size() &&
                         messages.sent[i]->microbatch == messages.received[i]->microbatch &&
                         messages.sent[i]->boundary == messages.received[i]->boundary;
      if (alike) continue;
      return PipelineProblem{Kind::unmatched, stage_in_words(from) + " sends " + sent + " to " + stage_in_words(to) +
                                                  ", which expects " + received};
    }
  }
  return {};
}

// The stages that wait for each other, or for one that has ended: from the first that waits along whom each waits for.
Found check_deadlock(const PipelineShape& shape, const std::vector<PipelineProgram>& programs) {
  const PlayedPipeline played = play_pipeline(programs, PipelineTimes());
  if (played.waiting.empty()) return {};
  std::map<int, const StuckStage*> waiting;
  for (const StuckStage& stuck : played.waiting) waiting[stuck.stage] = &stuck;
  std::set<int> passed;
  int at = waiting.begin()->first;
  while (waiting.contains(at) && passed.insert(at).second) at = waiting[at]->message.peer;
  PipelineProblem problem{Kind::deadlock, "stages wait for each other"};
  passed.clear();
  for (; waiting.contains(at) && passed.insert(at).second; at = waiting[at]->message.peer) {
    const StuckStage& stuck = *waiting[at];
    const PipelineProgram& program = programs[static_cast<std::size_t>(at)];
    std::size_t next = stuck.step;
    while (next < program.size() && !program[next].action) ++next;
    problem.story.push_back(stage_in_words(at) + ", before " +
                            (next < program.size() ? "the " + in_words(shape, *program[next].action) : "its end") +
                            ": waits until " + stage_in_words(stuck.message.peer) +
                            (stuck.message.sends ? " receives " : " sends ") + in_words(shape, stuck.message));
  }
  return problem;
}

Found verify(const PipelineShape& shape, const std::vector<PipelineProgram>& programs,
             const std::vector<std::optional<int>>& held) {
  if (programs.size() != static_cast<std::size_t>(shape.stages) || held.size() != programs.size())
    return PipelineProblem{Kind::malformed, std::to_string(programs.size()) + " programs and " +
                                                std::to_string(held.size()) + " statements of activations for " +
                                                std::to_string(shape.stages) + " stages"};
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    StageCheck check(shape, static_cast<int>(stage), programs[stage], held[stage]);
    if (Found found = check.run()) return found;
  }
  if (Found found = check_matching(shape, programs)) return found;
  return check_deadlock(shape, programs);
}

}  // namespace

std::string text_of(const PipelineProblem& problem) {
  std::string text = problem.message + "\n";
  for (const std::string& line : problem.story) text += "  " + line + "\n";
  return text;
}

Found verify_pipeline(const PipelineShape& shape, const std::vector<PipelineProgram>& programs,
                      const std::vector<int>& held) {
  return verify(shape, programs, {held.begin(), held.end()});
}

Found verify_pipeline(const PipelineShape& shape, const std::vector<PipelineProgram>& programs) {
  std::vector<int> held;
  for (int stage = 0; stage < shape.stages; ++stage) held.push_back(activations_held(shape, stage));
  return verify_pipeline(shape, programs, held);
}

Found verify_forwards(const PipelineShape& shape, const std::vector<PipelineProgram>& programs) {
  return verify(shape, programs, std::vector<std::optional<int>>(static_cast<std::size_t>(shape.stages)));
}

}  // namespace tutti::strategy
