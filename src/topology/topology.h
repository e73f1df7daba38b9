// What a cluster is like: the parts of its hosts, the switches between them, and the links. A value with a text form
// (text.h). All hosts are alike; ranks run on devices, host after host.
//
//   device --> bridge            links inside a host
//      \--> nic --> switch --> switch       and out of it, up a fabric
//
// Links lead up. What goes from one device to another climbs to a part that both reach, crosses a mesh at most once,
// and descends: the way of the least latency, and among equals the one that the fabric's routing picks.
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

struct Part {
  PartKind kind = PartKind::device_;
  std::string name;
  int count = 1;      // in each host; of switches in all, or where `per_hosts` is not 0:
  int per_hosts = 0;  // for each unit of so many hosts, from the first on; the last one may have fewer

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
  int lower = 0, upper = 0;  // numbers of parts
  Pattern pattern = Pattern::each;
  LinkSpeed up, down;

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

// What a link joins: numbers of parts, and of ones among all of each part, host after host or unit after unit.
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

  // Empty where it is one: every device leads to every other, no number is out of its range.
  std::string why_not() const;

  const Part& devices() const;
  int devices_per_host() const { return devices().count; }
  int ranks() const { return hosts * devices_per_host(); }
  int host_of(int rank) const { return rank / devices_per_host(); }

  // Of a switch that there are so many of per so many hosts; 1 of others.
  int units(const Part& part) const { return part.per_hosts == 0 ? 1 : (hosts + part.per_hosts - 1) / part.per_hosts; }
  // How many of a part there are.
  std::int64_t total(const Part& part) const {
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

}  // namespace tutti::topology
