// tutti topo: what this machine is made of, and clusters by name or from a file: their parts, their links, and the ways
// between ranks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "tools/clusters.h"
#include "tools/measure.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "topology/discover/see_machine.h"
#include "topology/json.h"
#include "topology/machine.h"
#include "topology/parts.h"
#include "topology/presets.h"
#include "topology/text.h"

namespace tutti::tools {
namespace {

using topology::LinkKind;
using topology::Part;
using topology::Pattern;
using topology::Topology;

constexpr const char* kTopoExamples = R"(Examples:
  tutti topo                               this machine: packages, memory, caches, cores, GPUs, NICs
  tutti topo node.xml                      another one, as hwloc wrote it there (lstopo node.xml)
  tutti topo --measure -n 4 -o my.topology what lies between four ranks here, how they reach a GPU; a file for tutti sim
  tutti run -n 4 -- tutti topo --measure   between the ranks of a job; across hosts start it on each, with --nnodes
  tutti topo place --mesh dp2.tp8 --topology dgx-h100:2     which ranks belong on which devices (place --help)
  tutti topo --list                        the clusters that have a name
  tutti topo dgx-h100:32                   32 hosts of them: parts, links, where the fabric is narrow
  tutti topo dgx-h100:32 --route 0 9       the way between two ranks, link by link
  tutti topo dgx-h100 --text > mine.topology; tutti topo mine.topology      a file of your own to begin with
  tutti topo dgx-h100:4 --svg dgx.svg      a picture, for a browser; of this machine without a name
  tutti topo gb200-nvl72:4 --json          for scripts; such a file is read as well

A file has statements, one to a line: topology NAME, hosts N, parts from below (device, bridge, nic or switch, a name
and how many: in each host, switches in all, or with `per 32` for every 32 hosts), and links:
  link LOWER UPPER each|all|block|mesh BANDWIDTH LATENCY [back BANDWIDTH LATENCY]
each joins by number within a host (rails), all every one with every other, block by host (racks, sites), mesh switches.
Ranks run on the device, host after host.)";

struct Topo {
  std::string words;
  std::vector<int> route;
  std::string svg, file;
  std::optional<int> ranks;
  bool measure = false;
  bool json = false, text = false, list = false;
};

const Part& lower_of(const Topology& topology, const LinkKind& kind) {
  return topology.parts[static_cast<std::size_t>(kind.lower)];
}
const Part& upper_of(const Topology& topology, const LinkKind& kind) {
  return topology.parts[static_cast<std::size_t>(kind.upper)];
}

// Of all links of a kind together, in bytes per second.
double capacity_of(const Topology& topology, const LinkKind& kind) {
  const Part &lower = lower_of(topology, kind), &upper = upper_of(topology, kind);
  const auto all = static_cast<double>(topology.total(lower));
  if (kind.pattern == Pattern::mesh) return all * (all - 1) * kind.up.bytes_per_s;
  const double fan = kind.pattern == Pattern::all ? upper.count : 1;
  if (!lower.in_host() || topology.kinds.empty()) return all * fan * kind.up.bytes_per_s;
  double capacity = 0;
  for (int host = 0; host < topology.hosts; ++host)
    capacity += topology.count_in(lower, host) * fan *
                speed_of(topology, kind, std::int64_t{host} * lower.count, true).bytes_per_s;
  return capacity;
}

std::string speed_text(const topology::LinkSpeed& speed) {
  return topology::words_of_bandwidth(speed.bytes_per_s) + ", " + topology::words_of_latency(speed.latency_s);
}

std::string_view meaning_of(topology::Routing routing) {
  constexpr std::string_view kMeanings[] = {
#define X(name, meaning) #name ": " meaning,
      TUTTI_ROUTINGS(X)
#undef X
  };
  return kMeanings[static_cast<std::size_t>(routing)];
}

// Those of a host, or the switches where `host` is -1.
std::string parts_text(const Topology& topology, int host) {
  std::string text;
  for (const Part& part : topology.parts) {
    if (part.in_host() != (host >= 0)) continue;
    const std::int64_t count = host >= 0 ? topology.count_in(part, host) : topology.total(part);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, part.name);
    if (part.per_hosts != 0) text += fmt::format(" ({} per {} hosts)", part.count, part.per_hosts);
  }
  return text.empty() ? "nothing" : text;
}

std::string route_text(const Topology& topology, int from, int to) {
  const topology::Route route = topology.route(from, to);
  double narrowest = std::numeric_limits<double>::infinity();
  for (const std::int64_t link : route.links) narrowest = std::min(narrowest, topology.speed_of(link).bytes_per_s);
  if (route.links.empty()) return "itself, over no link";
  return fmt::format("{}, {}, {} links", rounded_bandwidth(narrowest), rounded_time(route.latency_s),
                     route.links.size());
}

void print_route(const Topology& topology, int from, int to) {
  fmt::print("rank {} to rank {}: {}\n", from, to, route_text(topology, from, to));
  for (const std::int64_t link : topology.route(from, to).links)
    fmt::print("  {:<48} {}\n", topology.words_of(link), speed_text(topology.speed_of(link)));
}

void print_route_json(const Topology& topology, int from, int to) {
  const topology::Route route = topology.route(from, to);
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const std::int64_t link : route.links) {
    const topology::LinkSpeed& speed = topology.speed_of(link);
    links.push_back(
        {{"link", topology.words_of(link)}, {"bytes_per_s", speed.bytes_per_s}, {"latency_s", speed.latency_s}});
  }
  const nlohmann::ordered_json document{
      {"topology", topology.name}, {"from", from}, {"to", to}, {"latency_s", route.latency_s}, {"links", links}};
  fmt::print("{}\n", json_text(document, 2));
}

// The same with its first hosts only.
Topology first_hosts(Topology topology, int hosts) {
  topology.hosts = hosts;
  for (topology::HostKind& kind : topology.kinds) {
    kind.hosts = std::min(kind.hosts, hosts);
    hosts -= kind.hosts;
  }
  return topology;
}

void print_hosts(const Topology& topology) {
  if (topology.kinds.empty()) fmt::print("  {:<15} {}\n", "in every host", parts_text(topology, 0));
  int host = 0;
  for (const topology::HostKind& kind : topology.kinds) {
    const std::string hosts =
        kind.hosts == 1 ? fmt::format("host {}", host) : fmt::format("hosts {}-{}", host, host + kind.hosts - 1);
    fmt::print("  {:<15} {}: {}\n", hosts, kind.name, parts_text(topology, host));
    host += kind.hosts;
  }
  fmt::print("  {:<15} {}\n", "between hosts", parts_text(topology, -1));
}

// What meets at a switch from below, beside what leads on: where the fabric is narrow. Switches that come per so many
// hosts are those of a unit that is as full as any.
void print_subscriptions(const Topology& topology) {
  for (std::size_t number = 0; number < topology.parts.size(); ++number) {
    const Part& part = topology.parts[number];
    if (part.in_host()) continue;
    Topology unit = topology;
    if (part.per_hosts != 0) unit = first_hosts(topology, std::min(topology.hosts, part.per_hosts));
    double below = 0, above = 0;
    for (const LinkKind& kind : unit.links) {
      if (&upper_of(topology, kind) == &part && kind.pattern != Pattern::mesh) below += capacity_of(unit, kind);
      if (&lower_of(topology, kind) == &part) above += capacity_of(unit, kind);
    }
    if (above > 0)
      fmt::print("  {:<15} {} from below, {} on{}: {:.3g} to 1\n", part.name, rounded_bandwidth(below),
                 rounded_bandwidth(above), part.per_hosts == 0 ? "" : fmt::format(" for {} hosts", unit.hosts),
                 below / above);
  }
}

void print_topology(const Topology& topology) {
  fmt::print("{}: {} host{}, {} ranks on {}\n", topology.name, topology.hosts, topology.hosts == 1 ? "" : "s",
             topology.ranks(), topology.devices().name);
  print_hosts(topology);
  if (topology.hosts > 1) fmt::print("  {:<15} {}\n", "equal ways", meaning_of(topology.routing));
  fmt::print("\n");
  fmt::print("  {:<28} {:<7} {}\n", "links", "joins", "each way");
  for (const LinkKind& kind : topology.links) {
    fmt::print("  {:<28} {:<7} {}{}\n", lower_of(topology, kind).name + " - " + upper_of(topology, kind).name,
               topology::name_of(kind.pattern), speed_text(kind.up),
               kind.up == kind.down ? "" : "; back " + speed_text(kind.down));
    for (const LinkKind::InHosts& other : kind.others)
      fmt::print("  {:<28} {:<7} {}{}\n", "  in " + topology.kinds[static_cast<std::size_t>(other.kind)].name, "",
                 speed_text(other.up), other.up == other.down ? "" : "; back " + speed_text(other.down));
  }
  fmt::print("\n");
  const int inside = topology.first_rank(1);
  if (inside > 1) fmt::print("  {:<15} {}\n", "0 to 1", route_text(topology, 0, 1));
  if (topology.hosts > 1) {
    fmt::print("  {:<15} {}\n", fmt::format("0 to {}", inside), route_text(topology, 0, inside));
    if (inside > 1)
      fmt::print("  {:<15} {}\n", fmt::format("0 to {}", topology.ranks() - 1),
                 route_text(topology, 0, topology.ranks() - 1));
    print_subscriptions(topology);
  }
}

void print_presets() {
  for (const topology::Preset& preset : topology::presets())
    fmt::print("  {:<14} {:>3} ranks a host   {}\n", preset.name, topology::find_preset(preset.name).devices_per_host(),
               preset.summary());
  fmt::print("\nNAME:HOSTS gives it so many hosts. next: tutti topo dgx-h100:4\n");
}

void print_presets_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const topology::Preset& preset : topology::presets())
    list.push_back({{"topology", preset.name},
                    {"ranks_per_host", topology::find_preset(preset.name).devices_per_host()},
                    {"summary", preset.summary()}});
  fmt::print("{}\n", json_text(list, 2));
}

void show_machine(const topology::MachinePart& machine, const Topo& asked) {
  if (!asked.route.empty() || asked.text) refuse("--route and --text are for clusters: name one, such as dgx-h100:4");
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(machine));
  fmt::print("{}", asked.json ? topology::to_json(machine) : topology::to_tree(machine));
  if (!asked.json) fmt::print("\nnext: tutti topo --list, clusters that have a name\n");
}

void show_cluster(const Topology& topology, const Topo& asked) {
  if (!asked.route.empty()) {
    if (!asked.svg.empty() || asked.text)
      refuse("--route is a list of links, in words or as --json: leave --svg and --text away");
    return (asked.json ? print_route_json : print_route)(topology, asked.route[0], asked.route[1]);
  }
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(topology));
  if (!asked.json && !asked.text) return print_topology(topology);
  fmt::print("{}", asked.json ? topology::to_json(topology) : topology::to_text(topology));
}

}  // namespace

void add_topo(CLI::App& app, int& exit_code) {
  CLI::App* topo =
      app.add_subcommand("topo", "Show this machine, or a cluster: its parts, its links, the ways between ranks");
  const auto asked = std::make_shared<Topo>();
  topo->add_option("cluster", asked->words, "A name, with :HOSTS if wanted, or a file; this machine if left out")
      ->type_name("NAME");
  topo->add_option("--route", asked->route, "The way from one rank to another, link by link")
      ->type_name("RANK")
      ->expected(2);
  topo->add_option("--svg", asked->svg, "Write a picture of it to this file")->type_name("FILE");
  topo->add_flag("--measure", asked->measure,
                 "What lies between the ranks of a job: latency and bandwidth of each pair");
  topo->add_option("-n,--ranks", asked->ranks, "With --measure: so many ranks on this host, if this is no job")
      ->type_name("N");
  topo->add_option("-o,--output", asked->file, "With --measure: write a topology file that sim and cost take")
      ->type_name("FILE");
  topo->add_flag("--list", asked->list, "The clusters that have a name");
  topo->add_flag("--json", asked->json, "As JSON, for scripts");
  topo->add_flag("--text", asked->text, "In the form of a file");
  topo->footer(kTopoExamples);
  add_topo_place(*topo, exit_code);
  topo->callback([asked, topo, &exit_code] {
    if (topo->got_subcommand("place")) return;
    exit_code = 0;
    if (asked->list) return asked->json ? print_presets_json() : print_presets();
    if (asked->measure) {
      if (!asked->words.empty() || !asked->route.empty())
        refuse("--measure is about the ranks of a job, not a cluster");
      return measure({asked->ranks, asked->file, asked->svg, asked->json, asked->text});
    }
    if (asked->ranks || !asked->file.empty()) refuse("-n and -o are for --measure");
    if (asked->words.empty()) return show_machine(topology::see_this_machine(), *asked);
    if (asked->words.ends_with(".xml")) return show_machine(topology::see_machine_in_file(asked->words), *asked);
    show_cluster(find_topology(asked->words), *asked);
  });
}

}  // namespace tutti::tools
