// All ranks of a group driven from one thread, one advance at a time: no clock and no luck in it, the same choices give
// the same run. Every step that is done is recorded.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/execute/operation.h"
#include "trace/recording.h"
#include "transport/transport.h"

namespace tutti::testing {

class Lockstep {
 public:
  static constexpr std::uint16_t kCommunicator = 5;

  explicit Lockstep(int ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  transport::Transport& transport(int rank) { return *at(rank).transport; }
  std::uint64_t epoch() const { return epoch_; }  // which is also the number of the call

  // Starts a call: one lowered program and one binding per rank, `landing_plane` as a Plan wants it.
  void start(std::span<const schedule::Lowered> programs, int landing_plane, std::span<const engine::Binding> bindings);

  struct Advanced {
    engine::Advance outcome;
    std::vector<trace::TraceEvent> events;  // what was done meanwhile, in order
  };
  Advanced advance(int rank);
  engine::Blocked blocked(int rank) { return at(rank).operation->blocked(); }

 private:
  struct Rank {
    std::unique_ptr<transport::Transport> transport;
    std::shared_ptr<std::byte> ring;
    std::unique_ptr<trace::Recorder> recorder;
    trace::GroupRecorder group;
    std::unique_ptr<engine::Operation> operation;
    std::unique_ptr<engine::Plan> plan;
    engine::Binding binding;
    trace::EventCounts seen;  // events of the ring
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<Rank> ranks_;
  std::vector<std::byte*> inputs_, outputs_;  // by rank
  std::uint64_t epoch_ = 0;
};

}  // namespace tutti::testing
