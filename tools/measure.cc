#include "tools/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/environment.h"
#include "base/json_text.h"
#include "base/rank_list.h"
#include "rendezvous/host.h"
#include "rendezvous/launch/launch.h"
#include "tools/clusters.h"
#include "tools/measure_gpu.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "topology/discover/core_place.h"
#include "topology/measured.h"
#include "topology/text.h"
#include "tutti/error.h"
#include "tutti/init.h"
#include "tutti/local.h"

namespace tutti::tools {
namespace {

using topology::MeasuredPairs;

constexpr std::size_t kShort = 8, kLong = 4 << 20;
constexpr int kMostMeasured = 256;  // every pair takes its time, one after the other

// A host as ranks tell each other: who shares memory with whom, and a name for people.
struct Whereabouts {
  std::array<char, 512> id{};
  std::array<char, 256> name{};
  std::array<std::uint64_t, 16> cores{};  // that it may run on, a bit each; the first 1024
  topology::CorePlace place;
};

// "0-3, 8"
std::string words_of_cores(const Whereabouts& rank) {
  std::string text;
  const auto has = [&](std::size_t core) {
    return core < rank.cores.size() * 64 && (rank.cores[core / 64] >> (core % 64) & 1) != 0;
  };
  for (std::size_t core = 0; core < rank.cores.size() * 64; ++core) {
    if (!has(core)) continue;
    const std::size_t first = core;
    while (has(core + 1)) ++core;
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (core > first) text += "-" + std::to_string(core);
  }
  return text.empty() ? "unknown" : text;
}

template <std::size_t kSize>
void put(std::array<char, kSize>& into, const std::string& text) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), kSize - 1));
}

struct Map {
  Hosts hosts;
  std::vector<std::string> names;  // by host
  std::vector<Whereabouts> ranks;
};

Map map_of(Communicator& comm) {
  const std::string part = Environment::of_process().get("TUTTI_HOSTID").value_or("");
  Whereabouts mine;
  put(mine.id, rendezvous::host_id() + "/" + part);
  put(mine.name, rendezvous::host_name() + (part.empty() ? "" : "/" + part));
  const std::vector<std::uint64_t> cores = rendezvous::allowed_cores();
  std::copy_n(cores.begin(), std::min(cores.size(), mine.cores.size()), mine.cores.begin());
  mine.place = topology::place_of_cores(cores);
  Map map;
  std::vector<Whereabouts>& all = map.ranks;
  all.resize(static_cast<std::size_t>(comm.size()));
  comm.all_gather(one(mine), all);
  std::map<std::string, int> numbers;
  std::vector<int> by_rank;
  for (const Whereabouts& each : all) {
    const auto [entry, is_new] = numbers.emplace(each.id.data(), static_cast<int>(numbers.size()));
    if (is_new) map.names.emplace_back(each.name.data());
    by_rank.push_back(entry->second);
  }
  map.hosts = Hosts(by_rank);
  return map;
}

// Seconds for one way of a message, half of the way there and back: the median of as many as take some 50 ms. The first
// of the two counts, and the other does as it does.
double one_way(Communicator& comm, bool first, int peer, std::vector<std::byte>& buffer) {
  using Clock = std::chrono::steady_clock;
  const auto there_and_back = [&] {
    const Clock::time_point begin = Clock::now();
    if (first) comm.send(buffer, peer);
    comm.recv(buffer, peer);
    if (!first) comm.send(buffer, peer);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  constexpr int kWarm = 3, kLeast = 5, kMost = 2000;
  constexpr double kEnough = 0.05;
  std::vector<double> times;
  for (int i = 0; i < kWarm; ++i) times.push_back(there_and_back());
  int rounds = static_cast<int>(std::clamp(kEnough / std::max(times.back(), 1e-9), double{kLeast}, double{kMost}));
  if (first) {
    comm.send(one(rounds), peer);
  } else {
    comm.recv(one(rounds), peer);
  }
  times.clear();
  for (int i = 0; i < rounds; ++i) times.push_back(there_and_back());
  const auto middle = times.begin() + rounds / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle / 2;
}

// One pair after the other, so that none is in another's way; the same on all ranks in the end.
MeasuredPairs measure_pairs(Communicator& comm, const Hosts& hosts) {
  const int ranks = comm.size();
  MeasuredPairs measured(ranks, hosts);
  std::vector<std::byte> small(kShort), large(kLong);
  std::vector<double> found(2 * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), 0);
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      comm.barrier();
      if (comm.rank() != a && comm.rank() != b) continue;
      const bool first = comm.rank() == a;
      const double shortly = one_way(comm, first, first ? b : a, small),
                   longer = one_way(comm, first, first ? b : a, large);
      if (!first) continue;
      const std::size_t at =
          2 * (static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(b));
      found[at] = shortly;
      found[at + 1] = longer;
    }
  }
  comm.all_reduce(found);
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      const std::size_t at =
          2 * (static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(b));
      const double seconds = std::max(found[at + 1] - found[at], 1e-12);
      measured.at(a, b) = measured.at(b, a) = {static_cast<double>(kLong - kShort) / seconds, found[at]};
    }
  }
  return measured;
}

template <class Value>
void print_matrix(const MeasuredPairs& measured, Value&& value) {
  fmt::print("  {:>6}", "");
  for (int to = 0; to < measured.ranks(); ++to) fmt::print(" {:>8}", to);
  fmt::print("\n");
  for (int from = 0; from < measured.ranks(); ++from) {
    fmt::print("  {:>6}", from);
    for (int to = 0; to < measured.ranks(); ++to)
      fmt::print(" {:>8}", from == to ? "-" : fmt::format("{:.4g}", value(measured.at(from, to))));
    fmt::print("\n");
  }
}

void print_tables(const MeasuredPairs& measured, const Map& map) {
  const int hosts = map.hosts.count();
  fmt::print("{} ranks on {} host{}:", measured.ranks(), hosts, hosts == 1 ? "" : "s");
  for (int host = 0; host < hosts; ++host) {
    std::vector<int> here;
    for (int rank = 0; rank < measured.ranks(); ++rank) {
      if (map.hosts.of(rank) == host) here.push_back(rank);
    }
    fmt::print("{} {} ({})", host == 0 ? "" : ";", map.names[static_cast<std::size_t>(host)], rank_names(here));
  }
  const auto number = [](int of) { return of < 0 ? std::string("several") : std::to_string(of); };
  fmt::print("\n\n  {:>6} {:>8} {:>8}   {}\n", "rank", "socket", "cache", "cores it may run on");
  for (int rank = 0; rank < measured.ranks(); ++rank) {
    const Whereabouts& of = map.ranks[static_cast<std::size_t>(rank)];
    fmt::print("  {:>6} {:>8} {:>8}   {}\n", rank, number(of.place.package), number(of.place.cache),
               words_of_cores(of));
  }
  fmt::print("\nlatency in us: one way of {} bytes, half of there and back\n", kShort);
  print_matrix(measured, [](const topology::LinkSpeed& speed) { return speed.latency_s * 1e6; });
  fmt::print("\nbandwidth in GB/s: of messages of {} MB, beyond their latency\n", kLong >> 20);
  print_matrix(measured, [](const topology::LinkSpeed& speed) { return speed.bytes_per_s / 1e9; });
}

void print_measured_json(const MeasuredPairs& measured, const Map& map, const std::vector<MeasuredGpu>& gpus) {
  nlohmann::ordered_json latencies = nlohmann::ordered_json::array(), bandwidths = latencies, hosts = latencies,
                         cores = latencies;
  for (int from = 0; from < measured.ranks(); ++from) {
    nlohmann::ordered_json latency = nlohmann::ordered_json::array(), bandwidth = latency;
    for (int to = 0; to < measured.ranks(); ++to) {
      latency.push_back(measured.at(from, to).latency_s);
      bandwidth.push_back(measured.at(from, to).bytes_per_s);
    }
    latencies.push_back(latency);
    bandwidths.push_back(bandwidth);
    cores.push_back(words_of_cores(map.ranks[static_cast<std::size_t>(from)]));
    hosts.push_back(map.names[static_cast<std::size_t>(map.hosts.of(from))]);
  }
  nlohmann::ordered_json document{{"ranks", measured.ranks()},
                                  {"host_of_rank", hosts},
                                  {"cores_of_rank", cores},
                                  {"latency_s", latencies},
                                  {"bytes_per_s", bandwidths}};
  for (const MeasuredGpu& gpu : gpus) {
    if (!gpu.why_not.empty()) continue;
    document[gpu.device == kOwnDevice ? "own_gpus" : "gpu"] = {
        {"way", gpu.way}, {"latency_s", gpu.short_s}, {"bytes_per_s", gpu.bytes_per_s}};
  }
  fmt::print("{}\n", json_text(document, 2));
}

void report(const MeasureOptions& asked, const MeasuredPairs& measured, const Map& map,
            const std::vector<MeasuredGpu>& gpus) {
  const bool shape = asked.text || !asked.file.empty() || !asked.svg.empty();
  if (shape) {
    const topology::Topology topology = topology::topology_of(measured, "measured");
    const std::string text = "# Measured by `tutti topo --measure`: medians over pairs of ranks.\n" + to_text(topology);
    if (!asked.svg.empty()) write_picture(asked.svg, picture_of(topology));
    if (asked.text) fmt::print("{}", text);
    if (!asked.file.empty()) {
      std::ofstream file(asked.file);
      file << text;
      file.close();
      if (!file) refuse(fmt::format("cannot write '{}'; is the path right, and the disk not full?", asked.file));
    }
  }
  if (asked.json) print_measured_json(measured, map, gpus);
  if (asked.json || asked.text) return;
  print_tables(measured, map);
  if (!gpus.empty()) fmt::print("\n");
  for (const MeasuredGpu& gpu : gpus) fmt::print("{}\n", words_of(gpu));
  if (!asked.file.empty()) fmt::print("\nwrote {0}; next: tutti cost all_reduce --topology {0}\n", asked.file);
  if (asked.file.empty()) fmt::print("\nnext: -o mine.topology keeps it for tutti sim and tutti cost\n");
}

void measure_among(Communicator& comm, const MeasureOptions& asked) {
  if (comm.size() > kMostMeasured)
    refuse(
        fmt::format("{} ranks have too many pairs to measure one after the other; take {} at most, such as one of "
                    "each host",
                    comm.size(), kMostMeasured));
  const Map map = map_of(comm);
  const MeasuredPairs measured = measure_pairs(comm, map.hosts);
  const std::vector<MeasuredGpu> gpus = measure_gpus(comm);
  if (comm.rank() == 0) report(asked, measured, map, gpus);
  std::fflush(stdout);
  comm.barrier();  // nobody leaves before it is told
}

}  // namespace

void measure(const MeasureOptions& asked) {
  if (!asked.ranks) {
    if (rendezvous::recognise(Environment::of_process()).size < 2)
      refuse("--measure is about several ranks: tutti topo --measure -n 4, or tutti run -n 4 -- tutti topo --measure");
    Communicator comm = init();
    return measure_among(comm, asked);
  }
  if (*asked.ranks < 2 || *asked.ranks > kMostMeasured)
    refuse(fmt::format("-n must be 2 to {}, not {}", kMostMeasured, *asked.ranks));
  std::fflush(stdout);  // before ranks are forked
  const auto ends = run_processes(
      *asked.ranks, [&](Communicator& comm) { measure_among(comm, asked); }, {}, true);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (!ends[rank].ok()) throw Error(ErrorCode::system, fmt::format("rank {}: {}", rank, ends[rank].message));
  }
}

}  // namespace tutti::tools
