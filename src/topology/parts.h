// Which one of a part, and which of them links join: for those who walk a topology.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "topology/topology.h"

namespace tutti::topology {

// One of a part: its number among all of them, host after host, with room for the most in each.
struct Vertex {
  int part = 0;
  std::int64_t number = 0;

  auto operator<=>(const Vertex&) const = default;
};

// "gpu 3 of host 1", "spine 2"
std::string words_of(const Topology& topology, const Vertex& vertex);

inline const Part& part_of(const Topology& topology, int number) {
  return topology.parts[static_cast<std::size_t>(number)];
}

// Where a rank runs.
inline Vertex device_of(const Topology& topology, int rank) {
  const int host = topology.host_of(rank);
  return {0, std::int64_t{host} * topology.devices().count + rank - topology.first_rank(host)};
}

// How many numbers the links of a kind have.
inline std::int64_t instances_of(const Topology& topology, const LinkKind& kind) {
  const std::int64_t lower = topology.numbers(part_of(topology, kind.lower));
  if (kind.pattern == Pattern::mesh) return lower * lower;
  return kind.pattern == Pattern::all ? lower * part_of(topology, kind.upper).count : lower;
}

// Of a lower one's links of a kind: there, and back.
inline const LinkSpeed& speed_of(const Topology& topology, const LinkKind& kind, std::int64_t lower, bool up) {
  const Part& from = part_of(topology, kind.lower);
  if (!kind.others.empty()) {
    const int of = topology.kind_of_host(lower / from.count);
    for (const LinkKind::InHosts& other : kind.others)
      if (other.kind == of) return up ? other.up : other.down;
  }
  return up ? kind.up : kind.down;
}

// The upper ends of a lower one's links of a kind, each with the number of its link within the kind.
template <class Visit>
void for_each_upper(const Topology& topology, const LinkKind& kind, std::int64_t lower, Visit&& visit) {
  const Part& from = part_of(topology, kind.lower);
  const Part& to = part_of(topology, kind.upper);
  const std::int64_t unit = lower / from.count, place = lower % from.count;
  const std::int64_t host = from.in_host() ? unit : unit * from.per_hosts;  // the first that it is for
  const std::int64_t base = (to.in_host() ? host : to.per_hosts == 0 ? 0 : host / to.per_hosts) * to.count;
  // Inside a host by what that has; out of it by the most that any has, so that rails stay rails.
  const std::int64_t here = to.in_host() ? topology.count_in(to, host) : to.count;
  const std::int64_t lowers = to.in_host() ? topology.count_in(from, host) : from.count;
  if (here == 0 || (from.in_host() && place >= topology.count_in(from, host))) return;
  switch (kind.pattern) {
    case Pattern::each: visit(base + place * here / lowers, lower); break;
    case Pattern::block:
      if (to.per_hosts == 0) {
        visit(host * to.count / topology.hosts, lower);
      } else {
        visit(base + host % to.per_hosts * to.count / to.per_hosts, lower);
      }
      break;
    case Pattern::all:
      for (std::int64_t upper = 0; upper < here; ++upper) visit(base + upper, lower * to.count + upper);
      break;
    case Pattern::mesh: break;
  }
}

}  // namespace tutti::topology
