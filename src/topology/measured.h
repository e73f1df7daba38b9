// What was measured between the ranks of a job, and the cluster that fits it best. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/hosts.h"
#include "topology/topology.h"

namespace tutti::topology {

// Of each pair of ranks: the latency of an empty message, and the bandwidth of a long one.
class MeasuredPairs {
 public:
  MeasuredPairs(int ranks, Hosts hosts)
      : ranks_(ranks), hosts_(std::move(hosts)), pairs_(static_cast<std::size_t>(ranks) * ranks) {}

  int ranks() const { return ranks_; }
  const Hosts& hosts() const { return hosts_; }
  LinkSpeed& at(int from, int to) { return pairs_[index(from, to)]; }
  const LinkSpeed& at(int from, int to) const { return pairs_[index(from, to)]; }

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to);
  }

  int ranks_;
  Hosts hosts_;
  std::vector<LinkSpeed> pairs_;
};

// Ranks of a host meet in its memory, hosts at one switch; speeds are medians of those that were measured inside and
// across hosts. Throws Error(invalid_argument) where hosts have different numbers of ranks, or ranks do not go host
// after host: clusters are not like that.
Topology topology_of(const MeasuredPairs& measured, const std::string& name);

}  // namespace tutti::topology
