// What a collective takes among the ranks of a group on a cluster: our schedules, simulated on the group's own links
// while all other groups of its kind call as well, so that they share what NICs and buses there are.
//
// Every algorithm of the stack is simulated with a short and a long vector; what lies between is on a straight line,
// and the quickest line at a size is the price. Groups over many hosts are carried on from 2, 4 and 8 of them, or where
// their number is no power of two from 3, 6 and 12, as latency grows with the rounds and bytes with (n - 1) / n; so do
// many ranks of each of several hosts gather and scatter, from 8, 16 and 32 or 6, 12 and 24, rings from half of that.
// search_test.cc holds that to the simulator. Of the host that a plan is made on nothing is simulated (host_prices.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/accelerator.h"
#include "plan/host_prices.h"
#include "schedule/algorithms/table.h"
#include "topology/topology.h"
#include "tutti/types.h"

namespace tutti::plan {

// Whose choice of algorithms is priced.
struct Stack {
  std::string_view name;
  bool rings_only = false;     // over all ranks as they are numbered, so that one NIC of a host is on the way
  double prefetch = 1;         // share of a layer's computing that hides what stage 3 gathers
  int held_layers = 3;         // that stage 3 has gathered at once
  bool cuts_messages = false;  // between stages: along tp, and gathered there
  std::string_view meaning;
};
const std::vector<Stack>& stacks();
// Throws Error(invalid_argument) with the nearest names.
const Stack& find_stack(const std::string& name);

// How a group lies on hosts: as many ranks on each.
struct GroupSpan {
  int per_host = 1, hosts = 1;

  int ranks() const { return per_host * hosts; }
  auto operator<=>(const GroupSpan&) const = default;
};
// Of ranks that are `stride` devices apart.
GroupSpan span_of(const topology::Topology& topology, int ranks, int stride);
// "nvswitch", or "nvswitch and ndr": the parts that its messages pass first.
std::string links_of(const topology::Topology& topology, const GroupSpan& span);

// Seconds that an algorithm takes among groups that call at once, each of places of its ranks on the cluster, where all
// others are idle. `bytes` as Counters count them.
double simulated_seconds(const schedule::Algorithm& row, const topology::Topology& topology,
                         const std::vector<std::vector<int>>& groups, double bytes);

class CollectivePrices {
 public:
  // Groups of more than so many hosts, or ranks on each, are carried on from fewer: at least 12 of each.
  CollectivePrices(const topology::Topology& topology, const Accelerator& accelerator, const Stack& stack,
                   int played_hosts = 12, int played_per_host = 12);
  // Of ranks of one host that is known: as their communicators predict them, nothing is simulated.
  CollectivePrices(const topology::Topology& topology, const Accelerator& accelerator, const Stack& stack,
                   const HostCosts& host);

  // Seconds of a call, `bytes` as Counters count them: of the vector, or of all chunks together.
  double seconds(Verb verb, const GroupSpan& span, double bytes);
  // How many times as long calls of a strategy's bucket are under way in a step as that: where `seconds` are those of
  // blocking calls. See HostPrices::factor_in_step().
  double factor_in_step(int stage, const GroupSpan& span, double bytes, double whole);
  // The algorithm that is the quickest there.
  std::string_view algorithm(Verb verb, const GroupSpan& span, double bytes);
  const Stack& stack() const { return stack_; }

 private:
  struct Line {
    std::string_view algorithm;
    double latency_s = 0, seconds_per_byte = 0;

    double at(double bytes) const { return latency_s + seconds_per_byte * bytes; }
  };
  using Lines = std::vector<Line>;

  const Lines& lines(Verb verb, const GroupSpan& span);
  const Line& quickest(Verb verb, const GroupSpan& span, double bytes);
  Lines carried_on_hosts(Verb verb, const GroupSpan& span);
  Lines carried_on_ranks(Verb verb, const GroupSpan& span);
  struct Grown;
  std::vector<Grown> grown(Verb verb, const GroupSpan& span, int GroupSpan::*what);
  Lines simulated(Verb verb, const GroupSpan& span) const;

  topology::Topology topology_;
  Accelerator accelerator_;
  Stack stack_;
  int played_hosts_, played_per_host_;
  std::map<std::tuple<Verb, GroupSpan>, Lines> known_;
  std::optional<HostPrices> host_;
};

}  // namespace tutti::plan
