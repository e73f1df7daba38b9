// tutti topo place: which ranks of a mesh belong on which devices of a cluster, and what that saves.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/pictures.h"
#include "tools/placement.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kPlaceExamples = R"(Examples:
  tutti topo place --mesh dp2.tp8 --topology dgx-h100:2
  tutti topo place --mesh tp8.dp4 --topology dgx-h100:4 --traffic tp=all_reduce:64Mx32 --traffic dp=all_reduce:1G
  tutti topo place --mesh dp4.ep4.tp2 --topology mine.topology --traffic ep=all_to_all:16Mx8 --json
  tutti topo place --mesh tp8.dp2 --topology dgx-h100:2 --svg placed.svg   a picture, for a browser

A mesh numbers its ranks with the last dimension fastest, as PyTorch's init_device_mesh does. Every order in which its
dimensions can lie along the devices is simulated: all groups of a dimension at once, each by its quickest algorithm,
the dimensions one after the other.

Traffic that is not given is like that of a transformer of 32 layers, by the name of the dimension: tp does 128
all_reduces of 64M in a step, ep 64 all_to_alls, cp and sp 64 all_gathers, dp, fsdp and others one all_reduce of 2G.)";

constexpr int kMostPlaced = 1024;

struct PlaceRequest {
  std::string mesh, topology, svg;
  std::vector<std::string> traffic;
  bool json = false;
};

std::string words_of(const Mesh& mesh, const DimensionOrder& order) {
  std::string text;
  for (const std::size_t dimension : order) text += (text.empty() ? "" : ", then ") + mesh.dimensions()[dimension].name;
  return text;
}

// "0-3 8-11"
std::string runs_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (text.empty() ? "" : " ") + std::to_string(ranks[begin]);
    if (end - begin > 1) text += "-" + std::to_string(ranks[end - 1]);
    begin = end;
  }
  return text;
}

void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

void print_orders(const Mesh& mesh, const std::vector<Placement>& found) {
  std::string line = fmt::format("  {:<24} {:>10}", "nearest to each other", "in all");
  for (const MeshDimension& dimension : mesh.dimensions())
    line += fmt::format("   {:<32}", fmt::format("{}: {} {} of {}", dimension.name, dimension.times, dimension.verb,
                                                 bench::text_of_bytes(dimension.bytes)));
  print_line(line);
  for (const Placement& placement : found) {
    line = fmt::format("  {:<24} {:>10}", words_of(mesh, placement.order), rounded_time(placement.seconds));
    for (std::size_t i = 0; i < placement.phases.size(); ++i) {
      const Placement::Phase& phase = placement.phases[i];
      const double seconds = phase.seconds * mesh.dimensions()[i].times;
      line += fmt::format("   {:<32}",
                          phase.row == nullptr ? "-" : fmt::format("{} by {}", rounded_time(seconds), phase.row->name));
    }
    print_line(line);
  }
}

void print_places(const Mesh& mesh, const Placement& best, const topology::Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(mesh.ranks()));  // by device
  for (std::size_t rank = 0; rank < best.devices.size(); ++rank)
    ranks[static_cast<std::size_t>(best.devices[rank])] = static_cast<int>(rank);
  for (std::size_t begin = 0; begin < ranks.size();) {
    const int host = topology.host_of(static_cast<int>(begin));
    const std::size_t end = std::min(ranks.size(), static_cast<std::size_t>(topology.first_rank(host + 1)));
    fmt::print("  host {:<4} {} 0-{}: ranks {}\n", host, topology.devices().name, end - begin - 1,
               runs_of({ranks.begin() + static_cast<std::ptrdiff_t>(begin),
                        ranks.begin() + static_cast<std::ptrdiff_t>(end)}));
    begin = end;
  }
}

// As `tutti run --map-by node` starts ranks: rank r on host r mod the number of hosts.
bool goes_round_hosts(const std::vector<int>& devices, const topology::Topology& topology) {
  const auto ranks = static_cast<int>(devices.size());
  const int hosts = ranks / topology.devices_per_host();
  if (!topology.devices().counts.empty() || hosts < 2 || ranks % topology.devices_per_host() != 0) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (devices[static_cast<std::size_t>(rank)] != rank % hosts * topology.devices_per_host() + rank / hosts)
      return false;
  }
  return true;
}

const Placement& as_numbered(const std::vector<Placement>& found) {
  return *std::find_if(found.begin(), found.end(), [](const Placement& placement) {
    return std::is_sorted(placement.devices.begin(), placement.devices.end());
  });
}

void print_placement(const Mesh& mesh, const std::vector<Placement>& found, const topology::Topology& topology,
                     const std::string& name) {
  fmt::print("{} on {}:{}, {} of {} devices, simulated\n\n", name, topology.name, topology.hosts, mesh.ranks(),
             topology.ranks());
  print_orders(mesh, found);
  const Placement& best = found.front();
  const Placement& numbered = as_numbered(found);
  fmt::print("\nquickest: groups of {} on neighbouring devices", words_of(mesh, best.order));
  if (best.devices == numbered.devices) {
    fmt::print(", which is how the ranks are numbered");
    if (found.size() > 1 && found.back().seconds > 0)
      fmt::print("; {:.1f} % less time than in the slowest order", 100 * (1 - best.seconds / found.back().seconds));
  } else {
    fmt::print("; {:.1f} % less time than with ranks in the order of their numbers",
               100 * (1 - best.seconds / numbered.seconds));
  }
  fmt::print("\n");
  print_places(mesh, best, topology);
  if (goes_round_hosts(best.devices, topology)) fmt::print("next: tutti run --map-by node starts ranks so\n");
}

void print_placement_json(const Mesh& mesh, const std::vector<Placement>& found, const topology::Topology& topology,
                          const std::string& name) {
  nlohmann::ordered_json orders = nlohmann::ordered_json::array();
  for (const Placement& placement : found) {
    nlohmann::ordered_json order = nlohmann::ordered_json::array(), phases;
    for (const std::size_t dimension : placement.order) order.push_back(mesh.dimensions()[dimension].name);
    for (std::size_t i = 0; i < placement.phases.size(); ++i) {
      const MeshDimension& dimension = mesh.dimensions()[i];
      if (placement.phases[i].row == nullptr) continue;
      phases[dimension.name] = {{"verb", dimension.verb},
                                {"bytes", dimension.bytes},
                                {"times", dimension.times},
                                {"algorithm", placement.phases[i].row->name},
                                {"seconds", placement.phases[i].seconds}};
    }
    orders.push_back({{"nearest_first", order},
                      {"seconds", placement.seconds},
                      {"dimensions", phases},
                      {"device_of_rank", placement.devices}});
  }
  const nlohmann::ordered_json document{{"mesh", name},
                                        {"topology", topology.name},
                                        {"hosts", topology.hosts},
                                        {"seconds_as_numbered", as_numbered(found).seconds},
                                        {"placements", orders}};
  fmt::print("{}\n", json_text(document, 2));
}

// "dp 0, tp 5"
std::string words_of(const Mesh& mesh, const std::vector<int>& coordinates) {
  std::string text;
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", mesh.dimensions()[i].name, coordinates[i]);
  return text;
}

std::string picture_of(const Mesh& mesh, const Placement& best, const topology::Topology& topology,
                       const std::string& name) {
  const std::size_t nearest = best.order.front();
  std::vector<PlacedRank> placed(best.devices.size());  // by device
  const std::vector<std::vector<int>> groups = mesh.groups(nearest);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const int rank : groups[group])
      placed[static_cast<std::size_t>(best.devices[static_cast<std::size_t>(rank)])] = {
          rank, group, words_of(mesh, mesh.coordinates(rank))};
  }
  return tools::picture_of(
      topology, placed,
      fmt::format("{} on {}:{}: groups of {} on neighbouring devices, {} in a step", name, topology.name,
                  topology.hosts, words_of(mesh, best.order), rounded_time(best.seconds)));
}

void place(const PlaceRequest& asked) {
  Mesh mesh(asked.mesh);
  for (const std::string& traffic : asked.traffic) mesh.set_traffic(traffic);
  const topology::Topology topology = find_topology(asked.topology);
  if (mesh.ranks() > topology.ranks())
    refuse(fmt::format("{} is more than the {} devices of {}:{}", asked.mesh, topology.ranks(), topology.name,
                       topology.hosts));
  if (mesh.ranks() > kMostPlaced)
    refuse(
        fmt::format("{} has more than {} ranks, which would take too long to simulate; a smaller mesh of the same "
                    "shape tells as much",
                    asked.mesh, kMostPlaced));
  const std::vector<Placement> found = placements(mesh, topology);
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(mesh, found.front(), topology, asked.mesh));
  (asked.json ? print_placement_json : print_placement)(mesh, found, topology, asked.mesh);
}

}  // namespace

void add_topo_place(CLI::App& topo, int& exit_code) {
  CLI::App* verb = topo.add_subcommand("place", "Which ranks of a mesh belong on which devices, and what that saves");
  const auto asked = std::make_shared<PlaceRequest>();
  verb->add_option("--mesh", asked->mesh, "Dimensions with their sizes, the last one fastest: dp2.tp8")
      ->type_name("MESH")
      ->required();
  verb->add_option("--topology", asked->topology, "The cluster: a name of `tutti topo --list`, with :HOSTS, or a file")
      ->type_name("NAME")
      ->required();
  verb->add_option("--traffic", asked->traffic, "What groups of a dimension do, and how often: tp=all_gather:32Mx4")
      ->type_name("DIMENSION=VERB:BYTES[xTIMES]");
  verb->add_option("--svg", asked->svg, "Write a picture of the quickest to this file")->type_name("FILE");
  verb->add_flag("--json", asked->json, "As JSON, for scripts");
  verb->footer(kPlaceExamples);
  verb->callback([asked, &exit_code] {
    place(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
