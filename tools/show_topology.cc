// tutti show topology: a cluster drawn as text or as a picture: its hosts as boxes, and the switches above them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/clusters.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kTopologyExamples = R"(Examples:
  tutti show topology dgx-h100:2
  tutti show topology mine.topology --svg mine.svg

How to read it: a box is a host, with its devices below (by the numbers of their ranks) and above them what joins them
and what leads out; a bar is a switch. Links are listed with how fast they are each way. tutti topo tells more of it.)";

using topology::LinkKind;
using topology::Part;
using topology::Topology;

constexpr int kMostHosts = 2, kMostOfPart = 8, kMostBeforeLast = 4;
constexpr std::size_t kInside = 34;  // columns of a host

struct ShowTopology {
  std::string words, svg;
};

std::string repeated(std::string_view what, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += what;
  return text;
}

// "gpu   0 1 2 3 4 5 6 7", "nic   [] [] x 16"
std::string line_of(const Topology& topology, const Part& part, int host) {
  const int count = topology.count_in(part, host), drawn = count <= kMostOfPart ? count : kMostBeforeLast;
  const bool ranks = &part == &topology.devices();
  std::string text;
  for (int one = 0; one < drawn; ++one)
    text += ranks ? fmt::format(" {}", topology.first_rank(host) + one) : std::string(" []");
  if (drawn < count)
    text += ranks ? fmt::format(" .. {}", topology.first_rank(host) + count - 1) : fmt::format(" x{}", count);
  return fmt::format("{:<8}{}", part.name.substr(0, 8), text).substr(0, kInside);
}

void draw_hosts(const Topology& topology, const std::vector<std::size_t>& order) {
  const int hosts = std::min(topology.hosts, kMostHosts);
  std::string top, bottom;
  for (int host = 0; host < hosts; ++host) {
    const std::string name = fmt::format(" host {} ", host);
    top += "  ┌─" + name + repeated("─", kInside + 1 - name.size()) + "┐";
    bottom += "  └" + repeated("─", kInside + 2) + "┘";
  }
  fmt::print("{}\n", top);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Part& part = topology.parts[*at];
    if (!part.in_host()) continue;
    std::string row;
    for (int host = 0; host < hosts; ++host) row += fmt::format("  │ {:<{}} │", line_of(topology, part, host), kInside);
    fmt::print("{}\n", row);
  }
  fmt::print("{}\n", bottom);
  if (hosts < topology.hosts) fmt::print("  and {} more hosts\n", topology.hosts - hosts);
}

void draw(const Topology& topology) {
  const std::vector<std::size_t> order = parts_from_below(topology);
  const auto hosts = static_cast<std::size_t>(std::min(topology.hosts, kMostHosts));
  fmt::print("{}: {} host{}, {} ranks on {}\n\n", topology.name, topology.hosts, topology.hosts == 1 ? "" : "s",
             topology.ranks(), topology.devices().name);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Part& part = topology.parts[*at];
    if (part.in_host()) continue;
    const std::string words = fmt::format(" {} {} ", topology.total(part), part.name);
    fmt::print("  ══{}{}\n", words,
               repeated("═", std::max(words.size() + 4, hosts * (kInside + 6) - 2) - words.size() - 2));
  }
  draw_hosts(topology, order);
  fmt::print("\n");
  for (const LinkKind& kind : topology.links) {
    const auto name = [&](int part) { return topology.parts[static_cast<std::size_t>(part)].name; };
    fmt::print("  {:<28} {}, {}\n", name(kind.lower) + " - " + name(kind.upper), rounded_bandwidth(kind.up.bytes_per_s),
               rounded_time(kind.up.latency_s));
  }
}

}  // namespace

void add_show_topology(CLI::App& show, int& exit_code) {
  CLI::App* verb = show.add_subcommand("topology", "Draw a cluster: its hosts, what is in them, the switches above");
  const auto asked = std::make_shared<ShowTopology>();
  verb->add_option("cluster", asked->words, "A name of `tutti topo --list`, with :HOSTS if wanted, or a file")
      ->type_name("NAME")
      ->required();
  verb->add_option("--svg", asked->svg, "Write a picture of it to this file")->type_name("FILE");
  verb->footer(kTopologyExamples);
  verb->callback([asked, &exit_code] {
    const Topology topology = find_topology(asked->words);
    if (!asked->svg.empty()) write_picture(asked->svg, picture_of(topology));
    draw(topology);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
