#include "topology/topology.h"

#include <algorithm>
#include <map>

#include "base/mix.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

// One of a part: its number among all of them, host after host.
struct Vertex {
  int part = 0;
  std::int64_t number = 0;

  auto operator<=>(const Vertex&) const = default;
};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

const Part& part_of(const Topology& topology, int number) { return topology.parts[at(number)]; }

// How many links of a kind there are, and where its numbers begin.
std::int64_t instances_of(const Topology& topology, const LinkKind& kind) {
  const std::int64_t lower = topology.total(part_of(topology, kind.lower));
  if (kind.pattern == Pattern::mesh) return lower * lower;
  return kind.pattern == Pattern::all ? lower * part_of(topology, kind.upper).count : lower;
}

// The upper ends of a lower one's links of a kind, each with the number of its link within the kind.
template <class Visit>
void for_each_upper(const Topology& topology, const LinkKind& kind, std::int64_t lower, Visit&& visit) {
  const Part& from = part_of(topology, kind.lower);
  const Part& to = part_of(topology, kind.upper);
  const std::int64_t unit = lower / from.count, place = lower % from.count;
  const std::int64_t host = from.in_host() ? unit : unit * from.per_hosts;  // the first that it is for
  const std::int64_t base = (to.in_host() ? host : to.per_hosts == 0 ? 0 : host / to.per_hosts) * to.count;
  switch (kind.pattern) {
    case Pattern::each: visit(base + place * to.count / from.count, lower); break;
    case Pattern::block:
      if (to.per_hosts == 0) {
        visit(host * to.count / topology.hosts, lower);
      } else {
        visit(base + host % to.per_hosts * to.count / to.per_hosts, lower);
      }
      break;
    case Pattern::all:
      for (std::int64_t upper = 0; upper < to.count; ++upper) visit(base + upper, lower * to.count + upper);
      break;
    case Pattern::mesh: break;
  }
}

std::string words_of(const Topology& topology, const Vertex& vertex) {
  const Part& part = part_of(topology, vertex.part);
  if (!part.in_host()) return part.name + " " + std::to_string(vertex.number);
  return part.name + " " + std::to_string(vertex.number % part.count) + " of host " +
         std::to_string(vertex.number / part.count);
}

// The ways from one device up to everything that it reaches.
class Climb {
 public:
  enum class Direction : std::uint8_t { up, down };  // of what travels there

  Climb(const Topology& topology, int rank, Direction direction, std::uint64_t salt)
      : topology_(topology), direction_(direction), salt_(salt) {
    reached_[{0, rank}] = {};
    // Links lead to parts with higher numbers, so what is found is visited later.
    for (auto entry = reached_.begin(); entry != reached_.end(); ++entry)
      climb_from(entry->first, entry->second.latency);
  }

  struct Step {
    double latency = 0;
    Vertex below;
    std::int64_t link = -1;
  };
  const std::map<Vertex, Step>& reached() const { return reached_; }
  // The directed links from the device to the vertex, from below.
  std::vector<std::int64_t> links_to(Vertex vertex) const {
    std::vector<std::int64_t> links;
    for (const Step* step = &reached_.at(vertex); step->link >= 0; step = &reached_.at(step->below))
      links.push_back(step->link);
    std::reverse(links.begin(), links.end());
    return links;
  }

 private:
  void climb_from(const Vertex& from, double latency) {
    std::int64_t first = 0;
    for (const LinkKind& kind : topology_.links) {
      if (kind.lower == from.part && kind.pattern != Pattern::mesh) {
        const bool up = direction_ == Direction::up;
        const double there = latency + (up ? kind.up : kind.down).latency_s;
        for_each_upper(topology_, kind, from.number, [&](std::int64_t upper, std::int64_t instance) {
          reach({kind.upper, upper}, {there, from, (first + instance) * 2 + (up ? 0 : 1)});
        });
      }
      first += instances_of(topology_, kind);
    }
  }

  void reach(const Vertex& vertex, const Step& step) {
    const auto [entry, is_new] = reached_.emplace(vertex, step);
    if (is_new) return;
    const Step& known = entry->second;
    if (step.latency < known.latency ||
        (step.latency == known.latency &&
         mix(salt_, static_cast<std::uint64_t>(step.link)) < mix(salt_, static_cast<std::uint64_t>(known.link))))
      entry->second = step;
  }

  const Topology& topology_;
  Direction direction_;
  std::uint64_t salt_;
  std::map<Vertex, Step> reached_;
};

// Where two climbs meet: at one vertex, or at the two ends of a link of a mesh.
struct Crest {
  double latency = 0;
  Vertex left, right;
  std::int64_t link = -1;

  // Among ways of equal latency one that depends on the two ends, so that load spreads.
  bool is_before(const Crest& other, std::uint64_t salt) const {
    const auto draw = [&](const Crest& of) {
      return mix(mix(salt, static_cast<std::uint64_t>(of.left.number)), static_cast<std::uint64_t>(of.right.number));
    };
    return latency != other.latency ? latency < other.latency : draw(*this) < draw(other);
  }
};

// All there are, in no order.
std::vector<Crest> crests_of(const Topology& topology, const Climb& left, const Climb& right) {
  std::vector<Crest> crests;
  for (const auto& [vertex, step] : left.reached()) {
    const auto other = right.reached().find(vertex);
    if (other != right.reached().end()) crests.push_back({step.latency + other->second.latency, vertex, vertex, -1});
  }
  std::int64_t first = 0;
  for (const LinkKind& kind : topology.links) {
    const std::int64_t count = topology.total(part_of(topology, kind.lower));
    for (const auto& [a, climbed] : left.reached()) {
      if (kind.pattern != Pattern::mesh || a.part != kind.lower) continue;
      for (const auto& [b, descended] : right.reached()) {
        if (b.part != kind.lower || a == b) continue;
        crests.push_back(
            {climbed.latency + kind.up.latency_s + descended.latency, a, b, (first + a.number * count + b.number) * 2});
      }
    }
    first += instances_of(topology, kind);
  }
  return crests;
}

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

Route Topology::route(int from, int to) const {
  for (const int rank : {from, to}) {
    if (rank < 0 || rank >= ranks())
      throw Error(ErrorCode::invalid_argument,
                  std::to_string(rank) + " is no rank of " + name + ", which has " + std::to_string(ranks()));
  }
  if (from == to) return {};
  const std::uint64_t salt = mix(static_cast<std::uint64_t>(from) + 1, static_cast<std::uint64_t>(to) + 1);
  const Climb left(*this, from, Climb::Direction::up, salt), right(*this, to, Climb::Direction::down, salt);
  const std::vector<Crest> crests = crests_of(*this, left, right);
  if (crests.empty()) {
    throw Error(ErrorCode::invalid_argument, name + ": no way leads from " + topology::words_of(*this, {0, from}) +
                                                 " to " + topology::words_of(*this, {0, to}));
  }
  const Crest& best = *std::min_element(crests.begin(), crests.end(),
                                        [&](const Crest& a, const Crest& b) { return a.is_before(b, salt); });
  Route route{left.links_to(best.left), best.latency};
  if (best.link >= 0) route.links.push_back(best.link);
  std::vector<std::int64_t> down = right.links_to(best.right);
  route.links.insert(route.links.end(), down.rbegin(), down.rend());
  return route;
}

}  // namespace tutti::topology
