// The cache of plans of one communicator: generate, lower, compile, once per (algorithm, root, channel).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/call.h"
#include "engine/execute/plan.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {

class Plans {
 public:
  Plans(transport::Transport& transport, int channels);

  // Never fails after the first call of a places. May be called from several threads for different channels.
  const Plan& get(const Call& call, const schedule::Algorithm& row, int channel) {
    const std::unique_ptr<Plan>& plan = plans_[index_of(call, row, channel)];
    return plan ? *plan : make(call, row, channel);
  }

 private:
  std::size_t index_of(const Call& call, const schedule::Algorithm& row, int channel) const {
    const std::size_t ranks = ranks_;
    const bool receives = call.verb == Verb::send_recv && call.peer == call.root;
    const auto variant =
        static_cast<std::size_t>(call.verb == Verb::send_recv ? call.peer : call.root) + (receives ? ranks : 0);
    const auto number = static_cast<std::size_t>(&row - rows_.data());
    return (static_cast<std::size_t>(channel) * rows_.size() + number) * 2 * ranks + variant;
  }
  const Plan& make(const Call& call, const schedule::Algorithm& row, int channel);

  transport::Transport* transport_;
  int channels_;  // of calls and messages: those for further channels of their programs lie behind them
  std::size_t ranks_;
  std::span<const schedule::Algorithm> rows_ = schedule::algorithms();
  std::mutex mutex_;  // held while a plan is made
  // By ((channel, algorithm), root or peer and direction).
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace tutti::engine
