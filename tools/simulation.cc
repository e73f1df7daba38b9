#include "tools/simulation.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/nearest_names.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/layout.h"
#include "schedule/readers/firing.h"
#include "schedule/readers/simulate/group_programs.h"
#include "tools/bench/sizes.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "topology/link_names.h"

namespace tutti::tools {
namespace {

using schedule::Algorithm;

constexpr std::uint64_t kMostEdges = 500'000;  // of a row that nobody has asked for by name

bool runs_on_a_cluster(const Algorithm& row) { return only_sends(row) && !row.single_copy; }

// "5:2x" or "WORDS:2x": what stands before the last colon, and the factor behind it.
struct Slowed {
  std::string what;
  double factor = 1;
};

Slowed slowed_by(const std::string& text, const char* option, const char* form) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse(fmt::format("{} {}: {}", option, text, form));
  Slowed slowed{text.substr(0, colon), 1};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, slowed.factor);
  const bool good = error == std::errc() && (rest == end || std::string_view(rest, end) == "x");
  if (!good || !(slowed.factor > 0)) refuse(fmt::format("{} {}: {}", option, text, form));
  return slowed;
}

int number_in(const std::string& text, const std::string& problem) {
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) refuse(problem);
  return number;
}

// What is wrong with ranks and links.
void add_troubles(const SimulationRequest& asked, const topology::Topology& topology,
                  schedule::SimulateOptions& options) {
  constexpr const char* kRankForm = "RANK:FACTOR belongs there, such as 5:2x";
  constexpr const char* kLinkForm = "LINK:FACTOR belongs there, such as 'leaf 0 to spine 1:4x'";
  for (const std::string& text : asked.stragglers)
    options.stragglers.push_back(slow_rank(text, "--straggler", kRankForm));
  for (const std::string& text : asked.slow_links) {
    const Slowed slowed = slowed_by(text, "--slow-link", kLinkForm);
    for (const std::int64_t link : topology::find_links(topology, slowed.what))
      options.slow_links.push_back({link, slowed.factor});
  }
  for (const std::string& text : asked.failed_links) {
    for (const std::int64_t link : topology::find_links(topology, text)) options.failed_links.push_back(link);
  }
  if (asked.background.empty()) return;
  const std::size_t colon = std::min(asked.background.find(':'), asked.background.size());
  const std::string problem =
      fmt::format("--background {}: FLOWS or FLOWS:BYTES belongs there, such as 16:1M", asked.background);
  options.background.flows = number_in(asked.background.substr(0, colon), problem);
  if (options.background.flows < 1 || options.background.flows > std::int64_t{64} * topology.ranks()) refuse(problem);
  if (colon < asked.background.size())
    options.background.bytes =
        static_cast<double>(bench::parse_bytes(asked.background.substr(colon + 1), "--background"));
}

Hosts hosts_of(const topology::Topology& topology, int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(topology.host_of(rank));
  return Hosts(hosts);
}

// How many ranks take part. Ends the command, in words, where there are not so many, or the root is none of them.
int checked_ranks(const SimulationRequest& asked, Verb verb, const topology::Topology& topology) {
  const bool pair = verb == Verb::send_recv;
  const int ranks = asked.ranks.value_or(pair ? 2 : topology.ranks());
  if (ranks < 1 || ranks > topology.ranks())
    refuse(fmt::format("-n must be 1 to {}, the ranks of {}", topology.ranks(), topology.name));
  if (pair && ranks != 2) refuse(fmt::format("send_recv is between two ranks: use -n 2, not {}", ranks));
  if (asked.root < 0 || asked.root >= ranks) refuse(fmt::format("--root must be 0 to {}", ranks - 1));
  return ranks;
}

schedule::Layout layout_of(const schedule::Lowered& lowered, std::uint64_t count, std::uint32_t element_bytes) {
  return schedule::Layout::of(lowered.program.verb, count, element_bytes,
                              static_cast<std::uint32_t>(lowered.program.blocks), lowered.segment_bytes);
}

// The next count whose blocks are all of one size, where that is within a hundredth: only then can ranks fold.
std::uint64_t count_that_folds(const schedule::Lowered& lowered, std::uint64_t count, std::uint32_t element_bytes) {
  const schedule::Layout layout = layout_of(lowered, count, element_bytes);
  if (layout.cut == schedule::Cut::chunks) return count;
  const std::uint64_t even = layout.segments * layout.block_count * layout.blocks;
  const schedule::Layout rounded = layout_of(lowered, even, element_bytes);
  const bool alike = rounded.blocks_alike(0) && rounded.blocks_alike(rounded.segments - 1);
  return alike && even - count <= count / 100 ? even : count;
}

std::uint64_t segment_of(const SimulationRequest& asked, const Algorithm& row, int ranks, const Hosts& hosts,
                         const VectorCount& vector) {
  if (!asked.segment.empty()) return bench::parse_bytes(asked.segment, "--segment");
  if (!schedule::fits(row, ranks)) return 0;  // lowering says why
  return schedule::segment_bytes_to_simulate(row.generate({ranks, 0, asked.root, hosts}),
                                             static_cast<std::uint64_t>(vector.bytes()));
}

void tell_segments(const schedule::Lowered& lowered, const VectorCount& vector, std::uint32_t element_bytes,
                   SimulatedRow& row) {
  if (vector.count == 0) return;
  const schedule::Layout layout = layout_of(lowered, vector.count, element_bytes);
  row.segments = layout.segments;
  row.segment_bytes = layout.segment_count * vector.unit_bytes;
}

}  // namespace

VectorCount VectorCount::of(Verb verb, int ranks, std::uint64_t bytes, std::uint32_t element_bytes) {
  const bool chunks = schedule::facts_of(verb).cut == schedule::Cut::chunks;
  const std::uint64_t unit_bytes = element_bytes * (chunks ? static_cast<std::uint64_t>(ranks) : 1);
  return {schedule::moves_data(verb) ? std::max<std::uint64_t>(1, bytes / unit_bytes) : 0, unit_bytes};
}

schedule::SimulateOptions::Straggler slow_rank(const std::string& text, const char* option, const char* form) {
  const Slowed slowed = slowed_by(text, option, form);
  return {number_in(slowed.what, fmt::format("{} {}: {}", option, text, form)), slowed.factor};
}

void SimulationRequest::add_to(CLI::App& app) {
  app.add_option("verb", verb, "The collective")->type_name("VERB")->required();
  app.add_option("--topology", topology, "The cluster: a name of `tutti topo --list`, with :HOSTS, or a file")
      ->type_name("NAME")
      ->required();
  app.add_option("-n,--ranks", ranks, "The first so many ranks of the cluster; all if left out")->type_name("N");
  app.add_option("--root", root, "The rank that a rooted verb starts from or ends at")->type_name("RANK");
  app.add_option("--segment", segment,
                 "Pieces that long vectors are cut into; if left out 4M, or what is better for many ranks or bytes")
      ->type_name("BYTES");
  add_conditions_to(app);
  app.add_flag("--unfolded", unfolded, "Simulate ranks one by one even where they fare alike");
}

void SimulationRequest::add_conditions_to(CLI::App& app) {
  constexpr double kLeastRate = 1e-6, kMostRate = 1e9, kLongestSkew = 1e12;
  app.add_option("--reduce", reduce, "GB/s at which a rank reduces; free if left out")
      ->type_name("GB/S")
      ->check(number_between(kLeastRate, kMostRate));
  app.add_option("--copy", copy, "GB/s at which a rank copies; free if left out")
      ->type_name("GB/S")
      ->check(number_between(kLeastRate, kMostRate));
  app.add_option("--straggler", stragglers, "A rank that is slower, such as 5:2x; several if wanted")
      ->type_name("RANK:FACTOR");
  app.add_option("--skew", skew, "Ranks start up to so many microseconds late, by lot")
      ->type_name("US")
      ->check(number_between(0, kLongestSkew));
  app.add_option("--slow-link", slow_links,
                 "A link that is slower, such as 'ndr 3 of host 1 and leaf 3:4x': both directions; with 'to': one")
      ->type_name("LINK:FACTOR");
  app.add_option("--failed-link", failed_links, "A link that ways lead around, such as 'leaf 0 and spine 1'")
      ->type_name("LINK");
  app.add_option("--background", background, "Flows of others that are always under way, between ranks by lot; of 1M")
      ->type_name("FLOWS[:BYTES]");
  app.add_option("--seed", seed, "Of all that is by lot; 1 if left out")->type_name("N");
}

bool SimulationRequest::has_conditions() const {
  return reduce > 0 || copy > 0 || skew > 0 || !stragglers.empty() || !slow_links.empty() || !failed_links.empty() ||
         !background.empty();
}

schedule::SimulateOptions SimulationRequest::conditions(const topology::Topology& where) const {
  schedule::SimulateOptions options;
  options.reduced_bytes_per_s = reduce * 1e9;
  options.copied_bytes_per_s = copy * 1e9;
  options.skew_s = skew * 1e-6;
  options.late_starts = late_starts;
  options.seed = seed;
  add_troubles(*this, where, options);
  return options;
}

std::vector<const Algorithm*> SimulationRequest::rows() const {
  const Verb wanted = verb_named(verb);
  std::vector<const Algorithm*> rows;
  std::vector<std::string_view> names;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.verb != wanted || !runs_on_a_cluster(row)) continue;
    names.push_back(row.name);
    if (algorithm.empty() || row.name == algorithm) rows.push_back(&row);
  }
  if (rows.empty()) refuse(none_called("algorithm", algorithm, names, " of messages for " + verb));
  return rows;
}

std::string QuickRows::words() const {
  if (left_out.empty()) return {};
  std::string names;
  for (const LeftOut& one : left_out) names += (names.empty() ? "" : ", ") + std::string(one.row->name);
  return fmt::format("left out, because nearly all ranks send to all, which takes minutes to simulate: {}", names);
}

nlohmann::ordered_json QuickRows::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LeftOut& one : left_out)
    list.push_back({{"algorithm", one.row->name}, {"edges", one.edges}, {"most_edges", kMostEdges}});
  return list;
}

QuickRows quick_rows(const SimulationRequest& asked, const topology::Topology& topology) {
  QuickRows all{asked.rows(), {}}, quick;
  const int ranks = checked_ranks(asked, all.rows.front()->verb, topology);
  if (!asked.algorithm.empty() || ranks < 2) return all;
  std::erase_if(all.rows, [&](const Algorithm* row) { return !schedule::fits(*row, ranks); });
  const Hosts hosts = hosts_of(topology, ranks);
  for (const Algorithm* const row : all.rows) {
    // The root may hear from everybody; the others tell how many edges there are.
    const int rank = asked.root == ranks - 1 ? 0 : ranks - 1;
    const std::size_t peers =
        row->verb == Verb::send_recv ? 1 : schedule::senders_to(row->generate({ranks, rank, asked.root, hosts})).size();
    const std::uint64_t edges = std::uint64_t{peers} * static_cast<std::uint64_t>(ranks);
    if (edges <= kMostEdges) {
      quick.rows.push_back(row);
    } else {
      quick.left_out.push_back({row, edges});
    }
  }
  return quick.rows.empty() ? all : quick;
}

std::uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

SimulatedRow simulate_row(const SimulationRequest& asked, const Algorithm& row, const topology::Topology& topology,
                          std::uint64_t bytes) {
  SimulatedRow result;
  result.row = &row;
  result.ranks = checked_ranks(asked, row.verb, topology);
  schedule::SimulateOptions options = asked.conditions(topology);
  VectorCount vector = VectorCount::of(row.verb, result.ranks, bytes, options.element_bytes);
  options.fold = !asked.unfolded;
  options.history = asked.history;
  const Hosts hosts = hosts_of(topology, result.ranks);
  const Offers offers = schedule::offers_to_simulate(hosts, segment_of(asked, row, result.ranks, hosts, vector));
  constexpr int kManyRanks = 512;
  const auto lowered = [&](int rank) {
    return schedule::lower(row, {result.ranks, rank, asked.root, offers.hosts}, offers);
  };
  result.asked_bytes = vector.bytes();
  if (options.fold && result.ranks >= kManyRanks && options.skew_s == 0 && options.background.flows == 0)
    vector.count = count_that_folds(lowered(0), vector.count, options.element_bytes);
  options.count = vector.count;
  result.bytes = vector.bytes();
  tell_segments(lowered(0), vector, options.element_bytes, result);
  const auto before = std::chrono::steady_clock::now();
  const schedule::ProgramSource programs{result.ranks, lowered, row.alike};
  result.simulated = schedule::simulate(programs, topology, options);
  result.took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  return result;
}

}  // namespace tutti::tools
