#include "topology/topology.h"

#include "topology/parts.h"
#include "topology/router.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::string why_not_link(const Topology& topology, const LinkKind& kind) {
  const Part& lower = part_of(topology, kind.lower);
  const Part& upper = part_of(topology, kind.upper);
  const std::string both = "link " + lower.name + " " + upper.name + ": ";
  for (const LinkSpeed& speed : {kind.up, kind.down}) {
    if (!(speed.bytes_per_s > 0)) return both + "a bandwidth is more than 0";
    if (!(speed.latency_s >= 0)) return both + "a latency is not negative";
  }
  if ((kind.pattern == Pattern::mesh) != (kind.lower == kind.upper))
    return both + "a mesh joins the ones of a part, and nothing else does";
  if (kind.pattern == Pattern::mesh) return lower.in_host() ? both + "a mesh joins switches" : "";
  if (kind.lower > kind.upper) return both + "links lead from parts that are named before to parts behind them";
  if (!lower.in_host() && upper.in_host()) return both + "links lead out of hosts";
  if (!lower.in_host() && upper.per_hosts != 0 && (lower.per_hosts == 0 || upper.per_hosts % lower.per_hosts != 0))
    return both + "switches of a unit of hosts lead to those of a unit that holds it, or of all hosts";
  if (kind.pattern == Pattern::block && upper.in_host()) return both + "'block' joins hosts with switches";
  if (kind.pattern == Pattern::each && upper.count > lower.count)
    return both + "'each' joins parts with as many or fewer; 'all' joins every one with every other";
  return {};
}

}  // namespace

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
  if (parts.empty() || parts.front().kind != PartKind::device_) return "the first part is the device that ranks run on";
  for (const Part& part : parts) {
    if (part.count < 1) return part.name + ": there is at least one";
    if (part.in_host() && part.per_hosts != 0) return part.name + ": only switches are counted per so many hosts";
    if (&part != &parts.front() && part.kind == PartKind::device_)
      return part.name + ": ranks run on one kind of device";
  }
  for (const LinkKind& kind : links) {
    if (std::string why = why_not_link(*this, kind); !why.empty()) return why;
  }
  // Hosts are alike: if the first device leads to the others of its host and to the last of all, so do the rest.
  for (const int other : {devices_per_host() - 1, ranks() - 1}) {
    try {
      route(0, other);
      route(other, 0);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
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
  return link % 2 == 0 ? kind.up : kind.down;
}

LinkEnds Topology::ends_of(std::int64_t link) const {
  const LinkKind& kind = kind_of(link);
  std::int64_t number = link / 2;
  for (const LinkKind& before : links) {
    if (&before == &kind) break;
    number -= instances_of(*this, before);
  }
  const std::int64_t fan = kind.pattern == Pattern::mesh  ? total(parts[at(kind.lower)])
                           : kind.pattern == Pattern::all ? parts[at(kind.upper)].count
                                                          : 1;
  LinkEnds ends{kind.lower, number / fan, kind.upper, number % fan};
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
