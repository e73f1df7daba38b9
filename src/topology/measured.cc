#include "topology/measured.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

// Nothing is measured to more digits.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return std::strtod(text, nullptr);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the pairs inside hosts, or of those across.
LinkSpeed median_speed(const MeasuredPairs& measured, bool inside) {
  std::vector<double> latencies, bandwidths;
  for (int from = 0; from < measured.ranks(); ++from) {
    for (int to = 0; to < measured.ranks(); ++to) {
      if (from == to || measured.hosts().share(from, to) != inside) continue;
      latencies.push_back(measured.at(from, to).latency_s);
      bandwidths.push_back(measured.at(from, to).bytes_per_s);
    }
  }
  return {median(bandwidths), median(latencies)};
}

// One of `links` links, one behind the other, that together are so slow.
LinkSpeed share_of(const LinkSpeed& speed, int links) {
  return {rounded(speed.bytes_per_s), rounded(speed.latency_s / links)};
}

// As many ranks on the hosts of a kind, which follow each other.
void place_ranks(const MeasuredPairs& measured, Topology& topology) {
  if (!measured.hosts().in_order())
    throw Error(ErrorCode::invalid_argument,
                "the ranks of a topology file are numbered host after host; those of this job are not");
  const auto members = measured.hosts().members(measured.ranks());
  Part ranks{PartKind::device_, "rank", measured.hosts().most_on_one(measured.ranks())};
  for (const std::vector<int>& host : *members) {
    const auto count = static_cast<int>(host.size());
    if (ranks.counts.empty() || ranks.counts.back() != count) {
      ranks.counts.push_back(count);
      topology.kinds.push_back({"kind" + std::to_string(topology.kinds.size()), 0});
    }
    ++topology.kinds.back().hosts;
  }
  if (topology.kinds.size() == 1) {
    topology.kinds.clear();
    ranks.counts.clear();
  }
  topology.hosts = measured.hosts().count();
  topology.parts = {ranks};
}

}  // namespace

Topology topology_of(const MeasuredPairs& measured, const std::string& name) {
  if (measured.ranks() < 2) throw Error(ErrorCode::invalid_argument, "there is nothing between fewer than two ranks");
  Topology topology;
  topology.name = name;
  place_ranks(measured, topology);
  if (topology.devices_per_host() > 1) {
    const LinkSpeed inside = share_of(median_speed(measured, true), 2);
    topology.parts.push_back({PartKind::bridge_, "memory", 1});
    topology.links.push_back({0, static_cast<int>(topology.parts.size()) - 1, Pattern::each, inside, inside});
  }
  if (topology.hosts > 1) {
    const LinkSpeed across = share_of(median_speed(measured, false), 4);
    topology.parts.push_back({PartKind::nic_, "nic", 1});
    topology.parts.push_back({PartKind::switch_, "network", 1});
    const int network = static_cast<int>(topology.parts.size()) - 1;
    topology.links.push_back({0, network - 1, Pattern::each, across, across});
    topology.links.push_back({network - 1, network, Pattern::each, across, across});
  }
  if (const std::string why = topology.why_not(); !why.empty()) throw Error(ErrorCode::invalid_argument, why);
  return topology;
}

}  // namespace tutti::topology
