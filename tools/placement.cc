#include "tools/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <span>

#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/simulate/group_programs.h"
#include "schedule/readers/simulate/simulate.h"
#include "tools/bench/sizes.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tutti/train/mesh.h"

namespace tutti::tools {
namespace {

using schedule::Lowered;
using schedule::offers_to_simulate, schedule::put_group;

constexpr std::size_t kMostDimensions = 4;

int number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// As in a transformer of 32 layers; what is not named has gradients to reduce.
void set_usual_traffic(MeshDimension& dimension) {
  struct Usual {
    std::string_view dimension, verb;
    int times;
  };
  constexpr Usual kUsual[] = {
      {"tp", "all_reduce", 128}, {"ep", "all_to_all", 64}, {"cp", "all_gather", 64}, {"sp", "all_gather", 64}};
  for (const Usual& usual : kUsual) {
    if (usual.dimension != dimension.name) continue;
    dimension.verb = usual.verb;
    dimension.times = usual.times;
    dimension.bytes = 64 << 20;
  }
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// All groups of a dimension at once, by one algorithm.
double seconds_of(const schedule::Algorithm& row, const Mesh& mesh, std::size_t dimension,
                  const std::vector<int>& devices, const topology::Topology& topology) {
  const MeshDimension& of = mesh.dimensions()[dimension];
  std::vector<int> hosts_of_all, hosts_of_first;
  const std::vector<std::vector<int>> groups = mesh.groups(dimension);
  for (const int rank : groups.front())
    hosts_of_first.push_back(topology.host_of(devices[static_cast<std::size_t>(rank)]));
  const std::uint64_t segment_bytes =
      schedule::segment_bytes_to_simulate(row.generate({of.size, 0, 0, Hosts(hosts_of_first)}), of.bytes);
  for (int device = 0; device < mesh.ranks(); ++device) hosts_of_all.push_back(topology.host_of(device));
  const Offers whole = offers_to_simulate(Hosts(hosts_of_all), segment_bytes);
  Offers offers;
  std::vector<Lowered> group, all(static_cast<std::size_t>(mesh.ranks()));
  for (const std::vector<int>& ranks : groups) {
    std::vector<int> places, hosts;
    for (const int rank : ranks) {
      places.push_back(devices[static_cast<std::size_t>(rank)]);
      hosts.push_back(topology.host_of(places.back()));
    }
    if (group.empty() || offers.hosts != Hosts(hosts)) {
      // Of groups that lie differently on hosts the programs may be cut differently, and are not to be played together.
      if (!group.empty() && row.hierarchical) return kNever;
      offers = offers_to_simulate(Hosts(hosts), segment_bytes);
      group = schedule::lower_all(row, of.size, offers, 0);
    }
    put_group(group, places, whole, all);
  }
  schedule::SimulateOptions options;
  options.count = VectorCount::of(row.verb, of.size, of.bytes, options.element_bytes).count;
  return schedule::simulate(all, topology, options).seconds;
}

Placement::Phase quickest(const Mesh& mesh, std::size_t dimension, const std::vector<int>& devices,
                          const topology::Topology& topology) {
  SimulationRequest request;
  request.verb = mesh.dimensions()[dimension].verb;
  Placement::Phase best;
  if (mesh.dimensions()[dimension].size == 1) return best;
  for (const schedule::Algorithm* row : request.rows()) {
    if (!schedule::fits(*row, mesh.dimensions()[dimension].size)) continue;
    const double seconds = seconds_of(*row, mesh, dimension, devices, topology);
    if (best.row == nullptr || seconds < best.seconds) best = {row, seconds};
  }
  return best;
}

}  // namespace

Mesh::Mesh(const std::string& text) {
  for (const train::MeshAxis& axis : train::parse_mesh(text)) {
    MeshDimension& dimension = dimensions_.emplace_back();
    dimension.name = axis.name;
    dimension.size = axis.size;
    set_usual_traffic(dimension);
    if (axis.size <= topology::kMostOfAPart && dimensions_.size() <= kMostDimensions) continue;
    refuse(fmt::format("--mesh {}: {} dimensions of {} at most belong there, such as dp2.tp8", text, kMostDimensions,
                       topology::kMostOfAPart));
  }
}

void Mesh::set_traffic(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.find(':', equals);
  if (equals == std::string::npos || colon == std::string::npos)
    refuse(fmt::format(
        "--traffic {}: DIMENSION=VERB:BYTES belongs there, such as tp=all_gather:32M or dp=all_reduce:1Gx2", text));
  const auto found = std::find_if(dimensions_.begin(), dimensions_.end(), [&](const MeshDimension& dimension) {
    return dimension.name == text.substr(0, equals);
  });
  if (found == dimensions_.end())
    refuse(fmt::format("--traffic {}: the mesh has no dimension '{}'", text, text.substr(0, equals)));
  const Verb verb = verb_named(text.substr(equals + 1, colon - equals - 1));
  if (verb == Verb::send_recv)
    refuse(fmt::format("--traffic {}: send_recv is between two ranks; what all of a group do belongs there", text));
  found->verb = name_of(verb);
  const std::size_t by = std::min(text.find('x', colon), text.size());
  found->bytes = bench::parse_bytes(text.substr(colon + 1, by - colon - 1), "--traffic");
  found->times = by == text.size() ? 1 : number_of(std::string_view(text).substr(by + 1));
  if (found->times < 1) refuse(fmt::format("--traffic {}: behind the x belongs how often, from 1", text));
}

int Mesh::ranks() const {
  std::int64_t ranks = 1;
  for (const MeshDimension& dimension : dimensions_)
    ranks = std::min<std::int64_t>(ranks * dimension.size, topology::kMostOfAPart + 1);
  return static_cast<int>(ranks);
}

std::vector<int> Mesh::coordinates(int rank) const {
  std::vector<int> coordinates(dimensions_.size());
  for (std::size_t i = dimensions_.size(); i-- > 0; rank /= dimensions_[i].size)
    coordinates[i] = rank % dimensions_[i].size;
  return coordinates;
}

std::vector<std::vector<int>> Mesh::groups(std::size_t dimension) const {
  int stride = 1;
  for (std::size_t i = dimension + 1; i < dimensions_.size(); ++i) stride *= dimensions_[i].size;
  const int size = dimensions_[dimension].size;
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank / stride % size != 0) continue;
    groups.emplace_back();
    for (int i = 0; i < size; ++i) groups.back().push_back(rank + i * stride);
  }
  return groups;
}

std::vector<int> devices_of(const Mesh& mesh, const DimensionOrder& order) {
  std::vector<int> devices;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<int> coordinates = mesh.coordinates(rank);
    int device = 0, stride = 1;
    for (const std::size_t dimension : order) {
      device += coordinates[dimension] * stride;
      stride *= mesh.dimensions()[dimension].size;
    }
    devices.push_back(device);
  }
  return devices;
}

std::vector<Placement> placements(const Mesh& mesh, const topology::Topology& topology) {
  std::vector<Placement> found;
  DimensionOrder order(mesh.dimensions().size());
  std::iota(order.rbegin(), order.rend(), 0);  // as ranks are numbered
  do {
    Placement placement{order, devices_of(mesh, order), {}, 0};
    for (std::size_t dimension = 0; dimension < order.size(); ++dimension) {
      placement.phases.push_back(quickest(mesh, dimension, placement.devices, topology));
      placement.seconds += placement.phases.back().seconds * mesh.dimensions()[dimension].times;
    }
    found.push_back(std::move(placement));
  } while (std::prev_permutation(order.begin(), order.end()));
  std::stable_sort(found.begin(), found.end(),
                   [](const Placement& a, const Placement& b) { return a.seconds < b.seconds * (1 - 1e-9); });
  return found;
}

}  // namespace tutti::tools
