#include "topology/topology.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "topology/parts.h"
#include "topology/router.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::string why_not_kinds(const Topology& topology) {
  std::int64_t hosts = 0;
  for (const HostKind& kind : topology.kinds) {
    if (kind.hosts < 1) return "of hosts of kind " + kind.name + " there is at least one";
    hosts += kind.hosts;
  }
  if (!topology.kinds.empty() && hosts != topology.hosts)
    return "there are " + std::to_string(topology.hosts) + " hosts, and " + std::to_string(hosts) + " by their kinds";
  return {};
}

// Hosts that stand for all: some from either end, fewer where a way takes long to find among many switches, and of each
// kind the first and the last.
std::vector<int> hosts_to_try(const Topology& topology) {
  int most = 1;
  for (const Part& part : topology.parts) most = std::max(most, part.count);
  const int from_either_end = std::clamp(4096 / most, 4, 64);
  std::vector<int> hosts;
  for (int host = 0; host < std::min(topology.hosts, from_either_end); ++host) {
    hosts.push_back(host);
    hosts.push_back(topology.hosts - 1 - host);
  }
  int first = 0;
  for (const HostKind& kind : topology.kinds) {
    hosts.insert(hosts.end(), {first, first + kind.hosts - 1});
    first += kind.hosts;
  }
  return hosts;
}

// Ways up differ with the unit and the place in it, so that hosts in the middle count: from the first device of each
// kind of hosts, and of the last host, there are ways to the last device of others and back.
std::string why_no_way(const Topology& topology) {
  std::vector<int> senders = {0, topology.hosts - 1};
  int first = 0;
  for (const HostKind& kind : topology.kinds) {
    senders.push_back(first);
    first += kind.hosts;
  }
  const std::vector<int> receivers = hosts_to_try(topology);
  Router router(topology);
  for (const int sender : senders) {
    const int from = topology.first_rank(sender);
    for (const int receiver : receivers) {
      const int other = topology.first_rank(receiver + 1) - 1;
      try {
        router.route(from, other);
        router.route(other, from);
      } catch (const Error& error) {
        return error.what();
      }
    }
  }
  return {};
}

}  // namespace

std::string why_not_part(const Topology& topology, const Part& part) {
  const bool device = part.kind == PartKind::device_;
  if (&part == &topology.parts.front() && !device) return "the first part is the device that ranks run on";
  if (part.count < 1) return part.name + ": there is at least one";
  if (part.in_host() && part.per_hosts != 0) return part.name + ": only switches are counted per so many hosts";
  if (&part != &topology.parts.front() && device) return part.name + ": ranks run on one kind of device";
  if (part.counts.empty()) return {};
  if (!part.in_host()) return part.name + ": switches are in no host, of whatever kind";
  if (part.counts.size() != topology.kinds.size()) return part.name + ": there is a count for each kind of hosts";
  for (const int count : part.counts)
    if (count < (device ? 1 : 0)) return part.name + ": there is at least one in each host";
  if (*std::max_element(part.counts.begin(), part.counts.end()) != part.count)
    return part.name + ": the count is the most in any host";
  return {};
}

std::string why_not_speed(const LinkSpeed& speed) {
  if (!(speed.bytes_per_s > 0) || std::isinf(speed.bytes_per_s)) return "a bandwidth is more than 0, and finite";
  if (!(speed.latency_s >= 0) || std::isinf(speed.latency_s)) return "a latency is not negative, and finite";
  return {};
}

std::string why_not_link(const Topology& topology, const LinkKind& kind) {
  const Part& lower = part_of(topology, kind.lower);
  const Part& upper = part_of(topology, kind.upper);
  const std::string both = "link " + lower.name + " " + upper.name + ": ";
  std::vector<LinkSpeed> speeds = {kind.up, kind.down};
  for (const LinkKind::InHosts& other : kind.others) {
    if (!lower.in_host()) return both + "only links that begin in hosts differ between kinds of them";
    if (other.kind < 0 || other.kind >= static_cast<int>(topology.kinds.size()))
      return both + "there is no such kind of hosts";
    speeds.insert(speeds.end(), {other.up, other.down});
  }
  for (const LinkSpeed& speed : speeds) {
    if (const std::string why = why_not_speed(speed); !why.empty()) return both + why;
  }
  if ((kind.pattern == Pattern::mesh) != (kind.lower == kind.upper))
    return both + "a mesh joins the ones of a part, and nothing else does";
  if (kind.pattern == Pattern::mesh) {
    if (lower.in_host()) return both + "a mesh joins switches";
    return kind.up == kind.down ? "" : both + "a mesh has neither up nor down: there is one speed for both directions";
  }
  if (kind.lower > kind.upper) return both + "links lead from parts that are named before to parts behind them";
  if (!lower.in_host() && upper.in_host()) return both + "links lead out of hosts";
  if (!lower.in_host() && upper.per_hosts != 0 && (lower.per_hosts == 0 || upper.per_hosts % lower.per_hosts != 0))
    return both + "switches of a unit of hosts lead to those of a unit that holds it, or of all hosts";
  if (kind.pattern == Pattern::block && upper.in_host()) return both + "'block' joins hosts with switches";
  if (kind.pattern == Pattern::each && upper.count > lower.count)
    return both + "'each' joins parts with as many or fewer; 'all' joins every one with every other";
  for (std::size_t of = 0; upper.in_host() && kind.pattern == Pattern::each && of < topology.kinds.size(); ++of) {
    const int lowers = lower.counts.empty() ? lower.count : lower.counts[of];
    if (lowers > 0 && (upper.counts.empty() ? upper.count : upper.counts[of]) > lowers)
      return both + "'each' joins parts with as many or fewer, and in a host of kind " + topology.kinds[of].name +
             " there are more";
  }
  return {};
}

std::string why_not_so_many(const Topology& topology) {
  if (topology.parts.empty()) return {};
  if (topology.total(topology.devices()) > kMostRanksOfACluster)
    return std::to_string(topology.hosts) + " hosts with so many of " + topology.devices().name + " have " +
           std::to_string(topology.total(topology.devices())) + " ranks, and there are at most " +
           std::to_string(kMostRanksOfACluster);
  constexpr double kMostLinks = 1e15;  // with room for sums and products of their numbers
  double links = 0;
  for (const LinkKind& kind : topology.links) {
    const auto lower = static_cast<double>(topology.numbers(part_of(topology, kind.lower)));
    links += kind.pattern == Pattern::mesh  ? lower * lower
             : kind.pattern == Pattern::all ? lower * part_of(topology, kind.upper).count
                                            : lower;
  }
  return links > kMostLinks ? "there are more links than can be numbered" : "";
}

std::string words_of(const Topology& topology, const Vertex& vertex) {
  const Part& part = part_of(topology, vertex.part);
  if (!part.in_host()) return part.name + " " + std::to_string(vertex.number);
  return part.name + " " + std::to_string(vertex.number % part.count) + " of host " +
         std::to_string(vertex.number / part.count);
}

std::string_view name_of(PartKind kind) {
  constexpr std::string_view kNames[] = {
#define X(name, meaning) #name,
      TUTTI_PART_KINDS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Pattern pattern) {
  constexpr std::string_view kNames[] = {
#define X(name, meaning) #name,
      TUTTI_LINK_PATTERNS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(pattern)];
}

std::string_view name_of(Routing routing) {
  constexpr std::string_view kNames[] = {
#define X(name, meaning) #name,
      TUTTI_ROUTINGS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(routing)];
}

const Part& Topology::devices() const { return parts.front(); }

std::string Topology::why_not() const {
  if (hosts < 1) return "there is at least one host";
  if (parts.empty()) return "the first part is the device that ranks run on";
  if (std::string why = why_not_kinds(*this); !why.empty()) return why;
  for (const Part& part : parts) {
    if (std::string why = why_not_part(*this, part); !why.empty()) return why;
  }
  for (const LinkKind& kind : links) {
    if (std::string why = why_not_link(*this, kind); !why.empty()) return why;
  }
  if (std::string why = why_not_so_many(*this); !why.empty()) return why;
  return why_no_way(*this);
}

int Topology::kind_of_host(std::int64_t host) const {
  int kind = 0;
  for (; kind + 1 < static_cast<int>(kinds.size()) && host >= kinds[at(kind)].hosts; ++kind)
    host -= kinds[at(kind)].hosts;
  return kind;
}

int Topology::first_rank(int host) const {
  const Part& device = devices();
  if (device.counts.empty()) return host * device.count;
  int first = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const int before = std::min(host, kinds[kind].hosts);
    first += before * device.counts[kind];
    host -= before;
  }
  return first;
}

int Topology::host_of(int rank) const {
  const Part& device = devices();
  if (device.counts.empty()) return rank / device.count;
  int host = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const int here = kinds[kind].hosts * device.counts[kind];
    if (rank < here || kind + 1 == kinds.size()) return host + rank / device.counts[kind];
    rank -= here;
    host += kinds[kind].hosts;
  }
  return host;
}

std::int64_t Topology::total(const Part& part) const {
  if (part.counts.empty()) return numbers(part);
  std::int64_t all = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) all += std::int64_t{kinds[kind].hosts} * part.counts[kind];
  return all;
}

std::int64_t Topology::directed_links() const {
  std::int64_t count = 0;
  for (const LinkKind& kind : links) count += 2 * instances_of(*this, kind);
  return count;
}

const LinkKind& Topology::kind_of(std::int64_t link) const {
  std::int64_t number = link / 2;
  for (const LinkKind& kind : links) {
    if (number < instances_of(*this, kind)) return kind;
    number -= instances_of(*this, kind);
  }
  throw Error(ErrorCode::invalid_argument, "there is no link " + std::to_string(link));
}

const LinkSpeed& Topology::speed_of(std::int64_t link) const {
  const LinkKind& kind = kind_of(link);
  return topology::speed_of(*this, kind, kind.others.empty() ? 0 : ends_of(link).lower_one, link % 2 == 0);
}

LinkEnds Topology::ends_of(std::int64_t link) const {
  const LinkKind& kind = kind_of(link);
  std::int64_t number = link / 2;
  for (const LinkKind& before : links) {
    if (&before == &kind) break;
    number -= instances_of(*this, before);
  }
  const std::int64_t fan = kind.pattern == Pattern::mesh  ? numbers(parts[at(kind.lower)])
                           : kind.pattern == Pattern::all ? parts[at(kind.upper)].count
                                                          : 1;
  LinkEnds ends{kind.lower, number / fan, kind.upper, kind.pattern == Pattern::mesh ? number % fan : -1};
  for_each_upper(*this, kind, ends.lower_one, [&](std::int64_t found, std::int64_t instance) {
    if (instance == number) ends.upper_one = found;
  });
  return ends;
}

std::string Topology::words_of(std::int64_t link) const {
  const LinkEnds ends = ends_of(link);
  const std::string below = topology::words_of(*this, {ends.lower, ends.lower_one});
  const std::string above = topology::words_of(*this, {ends.upper, ends.upper_one});
  return link % 2 == 0 ? below + " to " + above : above + " to " + below;
}

Route Topology::route(int from, int to) const { return Router(*this).route(from, to); }

}  // namespace tutti::topology
