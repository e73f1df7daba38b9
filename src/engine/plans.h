// The cache of plans of one communicator: generate, lower, compile, once per (algorithm, root, channel).
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "engine/call.h"
#include "engine/plan.h"

namespace tutti::engine {

class Plans {
 public:
  Plans(transport::Transport& transport, int channels);

  // Never fails after the first call of a shape. May be called from several threads for different channels.
  const Plan& get(const Call& call, std::string_view algorithm, int channel);

 private:
  std::unique_ptr<Plan> make(const Call& call, std::string_view algorithm, int channel);

  transport::Transport* transport_;
  std::mutex mutex_;  // held while a plan is made
  // By ((channel, algorithm), root or peer and direction).
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace tutti::engine
