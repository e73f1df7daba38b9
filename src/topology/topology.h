// What a cluster is like: the parts of its hosts, the switches between them, and the links. A value with a text form
// (text.h). Hosts are alike, or of a few kinds that have more or fewer of each part; ranks run on devices, host after
// host.
//
//   device --> bridge            links inside a host
//      \--> nic --> switch --> switch       and out of it, up a fabric
//
// Links lead up. What goes from one device to another climbs to a part that both reach, crosses a mesh at most once,
// and descends: the way of the least latency, among equals the one of the fewest links, and among those the one that
// the fabric's routing picks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

// X(name, meaning): parts. All but switches are in hosts.
#define TUTTI_PART_KINDS(X)                                               \
  X(device, "what a rank runs on: a GPU, or a core")                      \
  X(bridge, "joins devices of a host: NVSwitch, a PCIe switch, a socket") \
  X(nic, "leads out of the host")                                         \
  X(switch, "between hosts")

enum class PartKind : std::uint8_t {
#define X(name, meaning) name##_,
  TUTTI_PART_KINDS(X)
#undef X
};

std::string_view name_of(PartKind kind);

inline constexpr int kMostOfAPart = 1 << 20;  // and the most hosts
inline constexpr int kMostRanksOfACluster = 1 << 30;

// Hosts that are alike, one after the other.
struct HostKind {
  std::string name;
  int hosts = 1;

  bool operator==(const HostKind&) const = default;
};

struct Part {
  PartKind kind = PartKind::device_;
  std::string name;
  int count = 1;                 // in each host, or the most in any; of switches in all, or where `per_hosts` is not 0:
  int per_hosts = 0;             // for each unit of so many hosts, from the first on; the last one may have fewer
  std::vector<int> counts = {};  // by kind of host, where they differ; may be 0

  bool in_host() const { return kind != PartKind::switch_; }
  bool operator==(const Part&) const = default;
};

// X(name, meaning): which of the lower parts is joined with which of the upper ones.
#define TUTTI_LINK_PATTERNS(X)                                                                  \
  X(each, "by number within a host, neighbours together where the upper ones are fewer: rails") \
  X(all, "every lower one with every upper one of its host, of its unit or of all")             \
  X(block, "by host, neighbours together: racks, sites")                                        \
  X(mesh, "every one with every other of the same part")

enum class Pattern : std::uint8_t {
#define X(name, meaning) name,
  TUTTI_LINK_PATTERNS(X)
#undef X
};

std::string_view name_of(Pattern pattern);

// One direction of a link.
struct LinkSpeed {
  double bytes_per_s = 0;
  double latency_s = 0;

  bool operator==(const LinkSpeed&) const = default;
};

// All links between two parts.
struct LinkKind {
  // In hosts of one kind.
  struct InHosts {
    int kind = 0;  // of hosts
    LinkSpeed up, down;

    bool operator==(const InHosts&) const = default;
  };

  int lower = 0, upper = 0;  // numbers of parts
  Pattern pattern = Pattern::each;
  LinkSpeed up, down;
  std::vector<InHosts> others = {};  // where lower ones of some hosts have other links

  bool operator==(const LinkKind&) const = default;
};

// X(name, meaning): how a fabric spreads load over ways that are equally quick.
#define TUTTI_ROUTINGS(X)                                                                      \
  X(ecmp, "by a hash of the two ends, as Ethernet does: some links get more than their share") \
  X(fixed, "by the receiver in turn, as InfiniBand does: to neighbours lead different ways")

enum class Routing : std::uint8_t {
#define X(name, meaning) name,
  TUTTI_ROUTINGS(X)
#undef X
};

std::string_view name_of(Routing routing);

// What a link joins: numbers of parts, and of ones among all of each part, host after host or unit after unit. Where
// kinds of hosts have different counts, numbers leave room for the most in each: the upper end of a link that is not
// there is -1.
struct LinkEnds {
  int lower = 0;
  std::int64_t lower_one = 0;
  int upper = 0;
  std::int64_t upper_one = 0;

  bool operator==(const LinkEnds&) const = default;
};

// A way between two ranks: directed links, in order. Links of all kinds are numbered together, both directions apart.
struct Route {
  std::vector<std::int64_t> links;
  double latency_s = 0;
};

struct Topology {
  std::string name;
  int hosts = 1;
  std::vector<Part> parts;  // the first device is where ranks run
  std::vector<LinkKind> links;
  Routing routing = Routing::ecmp;
  std::vector<HostKind> kinds = {};  // of hosts, as they stand; empty: all are alike

  // Empty where it is one: every device leads to every other, no number is out of its range.
  std::string why_not() const;

  const Part& devices() const;
  int devices_per_host() const { return devices().count; }  // the most
  int ranks() const { return first_rank(hosts); }           // none is valid with more than kMostRanksOfACluster
  // The number of the first rank on a host; of the one behind the last: how many there are.
  int first_rank(int host) const;
  int host_of(int rank) const;
  // In Topology::kinds; 0 where all hosts are alike.
  int kind_of_host(std::int64_t host) const;
  // How many of a part that is in hosts there are in one.
  int count_in(const Part& part, std::int64_t host) const {
    return part.counts.empty() ? part.count : part.counts[static_cast<std::size_t>(kind_of_host(host))];
  }

  // Of a switch that there are so many of per so many hosts; 1 of others.
  int units(const Part& part) const { return part.per_hosts == 0 ? 1 : (hosts + part.per_hosts - 1) / part.per_hosts; }
  // How many of a part there are, and how many numbers they have.
  std::int64_t total(const Part& part) const;
  std::int64_t numbers(const Part& part) const {
    return std::int64_t{part.count} * (part.in_host() ? hosts : units(part));
  }
  std::int64_t directed_links() const;
  const LinkKind& kind_of(std::int64_t link) const;
  const LinkSpeed& speed_of(std::int64_t link) const;
  LinkEnds ends_of(std::int64_t link) const;
  // "gpu 3 of host 1 to nvswitch 0 of host 1"
  std::string words_of(std::int64_t link) const;

  // Throws Error(invalid_argument) where a rank is none, or there is no way.
  Route route(int from, int to) const;

  bool operator==(const Topology&) const = default;
};

// What is wrong with a part or a link, for those who read one after the other and know where each stands: what comes
// behind it does not matter. Empty where nothing is.
std::string why_not_part(const Topology& topology, const Part& part);
std::string why_not_speed(const LinkSpeed& speed);
std::string why_not_link(const Topology& topology, const LinkKind& kind);
// Whether hosts, ranks and links are so many that nobody could number them.
std::string why_not_so_many(const Topology& topology);

}  // namespace tutti::topology
