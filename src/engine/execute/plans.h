// The cache of plans of one communicator: generate, lower, compile, once per (algorithm, root, channel).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "choice/given.h"
#include "engine/call.h"
#include "engine/execute/plan.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {

class Plans {
 public:
  // `verify`: every program is verified, for all ranks, before its plan is made.
  Plans(transport::Transport& transport, int channels, bool verify);

  // Its row may be asked for from now on. It outlives this one.
  void give(const choice::Given& given) { given_[static_cast<std::size_t>(given.row.verb)] = &given; }
  // How many programs were verified so far.
  std::size_t verified() const;

  // Never fails after the first call of a places. May be called from several threads for different channels.
  const Plan& get(const Call& call, const schedule::Algorithm& row, int channel) {
    const std::unique_ptr<Plan>& plan = plans_[index_of(call, row, channel)];
    return plan ? *plan : make(call, row, channel, 0);
  }
  // For a part of a call, on the channel that is its own.
  const Plan& get(const Call& call, const schedule::Algorithm& row, int channel, int part) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_of_parts_.find({part, index_of(call, row, channel)});
      if (found != plans_of_parts_.end() && found->second) return *found->second;
    }
    return make(call, row, channel, part);
  }

 private:
  std::size_t index_of(const Call& call, const schedule::Algorithm& row, int channel) const {
    const std::size_t ranks = ranks_;
    const bool receives = call.verb == Verb::send_recv && call.peer == call.root;
    const auto variant =
        static_cast<std::size_t>(call.verb == Verb::send_recv ? call.peer : call.root) + (receives ? ranks : 0);
    const auto number = static_cast<std::size_t>(number_of(row));
    return (static_cast<std::size_t>(channel) * kNumbers + number) * 2 * ranks + variant;
  }
  const Plan& make(const Call& call, const schedule::Algorithm& row, int channel, int part);
  void require_verified(const schedule::Algorithm& row, const schedule::Placement& placement, const Offers& offers);

  static constexpr std::size_t kNumbers = schedule::kMostAlgorithms + kVerbs;
  transport::Transport* transport_;
  int channels_;  // of calls and messages: those for further channels of their programs lie behind them
  std::size_t ranks_;
  bool verify_;
  std::array<const choice::Given*, kVerbs> given_{};
  mutable std::mutex mutex_;  // held while a plan is made, and guards plans_of_parts_
  // By number of the row, ranks and root; and of messages, whether the two share memory.
  std::set<std::tuple<std::ptrdiff_t, int, int, bool>> verified_;
  // By ((channel, algorithm), root or peer and direction).
  std::vector<std::unique_ptr<Plan>> plans_;
  // By part and that: few of them are ever made.
  std::map<std::pair<int, std::size_t>, std::unique_ptr<Plan>> plans_of_parts_;
};

}  // namespace tutti::engine
