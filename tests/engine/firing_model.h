// The programs of all ranks, played beside the executor by the rule of schedule/readers/firing.h alone: what may fire,
// and what must.
//
// An edge holds between `credits` messages, which lowering counts on, and kHeaders, which it has places for; how
// many of them depends on their sizes. So a step that would find more under way must not have fired, and one that finds
// fewer must have. Over streams a step with several messages sends each as soon as that one has a credit: what was
// taken of a step that is not done yet is held against the rule for that part of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/lower.h"
#include "trace/event.h"

namespace tutti::testing {

class FiringModel {
 public:
  // `programs` stays alive as long as the model.
  FiringModel(std::span<const schedule::Lowered> programs, std::uint64_t segments);

  // The rank has done a step. Why it may not have, or nothing, and then the model has done it, too.
  std::string fire(int rank, const trace::TraceEvent& event);
  // Whether the step at the head of the lane must fire when it is tried.
  bool must_fire(int rank, int lane) const;
  bool finished(int rank) const;
  // Every message of the rank was received.
  bool all_taken(int rank) const;
  // Messages that came before their step was done.
  std::uint64_t early_messages() const { return early_messages_; }

  // How far a lane is, as its progress is published: the segment of the step that was done last, and how many of that
  // segment are done; nothing done: 0 and 0.
  struct Progress {
    std::uint64_t segment = 0;
    std::uint32_t steps = 0;
  };
  Progress progress(int rank, int lane) const;
  const schedule::Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)].program; }

 private:
  struct Head {
    std::uint64_t segment = 0;
    std::size_t step = 0;
  };
  struct Edge {
    std::uint64_t sent = 0, taken = 0;
    bool early = false;  // the last one sent is of a step that is not done yet
  };
  struct Seen;

  const Head& head(int rank, int lane) const {
    return heads_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
  }
  const schedule::Step& step_at(int rank, int lane) const;
  bool done(int rank, int lane) const;
  Edge& edge(int from, int to, int channel) { return edges_[index(from, to, channel)]; }
  const Edge& edge(int from, int to, int channel) const { return edges_[index(from, to, channel)]; }
  std::size_t index(int from, int to, int channel) const {
    return (static_cast<std::size_t>(from) * programs_.size() + static_cast<std::size_t>(to)) * channels_ +
           static_cast<std::size_t>(channel);
  }
  const schedule::Operand* unheard(int rank) const;
  bool deliver_early(int from, int to, int channel);
  std::string unmet_of(int rank, int lane);
  void play(int rank, int lane);

  std::span<const schedule::Lowered> programs_;
  std::uint64_t segments_;
  bool streams_;
  std::uint64_t early_messages_ = 0;
  std::vector<std::vector<Head>> heads_;  // by rank and lane
  std::size_t channels_;                  // of each edge
  std::vector<Edge> edges_;               // by index()
};

}  // namespace tutti::testing
