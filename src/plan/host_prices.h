// What calls take among ranks of one host, as their communicators predict them: the algorithm that would be chosen, at
// the prices that it is chosen by. From what `tutti tune` measured there, or the built-in costs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "choice/chooser.h"
#include "plan/step_prices.h"
#include "topology/rates.h"

namespace tutti::plan {

// What is known of the host that a plan is for.
struct HostCosts {
  topology::CostTable table;
  bool tuned = false;  // by `tutti tune`
  int cores = 1;
  double memory_bytes = 0;
};

struct HostPrice {
  double seconds = 0;
  std::string_view algorithm;
};

class HostPrices {
 public:
  explicit HostPrices(const HostCosts& costs) : costs_(costs) {}

  // `bytes` as Counters count them. What is reduced lies in symmetric memory, as gradients of tutti::train do; messages
  // go both ways at once, as between stages.
  HostPrice price(Verb verb, int ranks, double bytes);
  // How many times as long the calls of a bucket, or of a unit, are under way in a step of a strategy, whose gradients
  // are `whole` bytes all in all, as these prices say: 1 where no such steps were timed. Of a group that is larger than
  // those that were timed, or more of whose ranks share a core, it is the factor of the one that is the most like it.
  double factor_in_step(int stage, int ranks, double bytes, double whole);

 private:
  choice::Chooser& chooser(int ranks);
  double bucket_seconds(int stage, int ranks, double bytes, int buckets);

  HostCosts costs_;
  std::map<int, std::unique_ptr<choice::Chooser>> choosers_;
  struct Steps {
    int ranks = 0;  // that were timed
    StepPrices prices;
  };
  std::map<int, std::optional<Steps>> steps_;  // by ranks that are asked for
};

}  // namespace tutti::plan
