// What calls take among ranks of one host, as their communicators predict them: the algorithm that would be chosen, at
// the prices that it is chosen by. From what `tutti tune` measured there, or the built-in costs.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "choice/chooser.h"
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

 private:
  choice::Chooser& chooser(int ranks);

  HostCosts costs_;
  std::map<int, std::unique_ptr<choice::Chooser>> choosers_;
};

}  // namespace tutti::plan
