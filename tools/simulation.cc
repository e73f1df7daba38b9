#include "tools/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/nearest_names.h"
#include "schedule/algorithms/lower_row.h"
#include "tools/bench/sizes.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using schedule::Algorithm;

bool runs_on_a_cluster(const Algorithm& row) { return only_sends(row) && !row.single_copy; }

schedule::SimulateOptions::Straggler straggler_of(const std::string& text) {
  schedule::SimulateOptions::Straggler straggler;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const char* const end = text.data() + text.size();
  const auto rank = std::from_chars(text.data(), text.data() + colon, straggler.rank);
  const auto factor = std::from_chars(text.data() + std::min(colon + 1, text.size()), end, straggler.factor);
  const bool good = rank.ec == std::errc() && rank.ptr == text.data() + colon && factor.ec == std::errc() &&
                    (factor.ptr == end || std::string_view(factor.ptr, end) == "x");
  if (!good) refuse(fmt::format("--straggler {}: RANK:FACTOR belongs there, such as 5:2x", text));
  return straggler;
}

}  // namespace

void SimulationRequest::add_to(CLI::App& app) {
  app.add_option("verb", verb, "The collective")->type_name("VERB")->required();
  app.add_option("--topology", topology, "The cluster: a name of `tutti topo --list`, with :HOSTS, or a file")
      ->type_name("NAME")
      ->required();
  app.add_option("-n,--ranks", ranks, "The first so many ranks of the cluster; all if left out")->type_name("N");
  app.add_option("--root", root, "The rank that a rooted verb starts from or ends at")->type_name("RANK");
  app.add_option("--segment", segment, "Pieces that long vectors are cut into; 4M if left out")->type_name("BYTES");
  app.add_option("--reduce", reduce, "GB/s at which a rank reduces; free if left out")
      ->type_name("GB/S")
      ->check(CLI::PositiveNumber);
  app.add_option("--copy", copy, "GB/s at which a rank copies; free if left out")
      ->type_name("GB/S")
      ->check(CLI::PositiveNumber);
  app.add_option("--straggler", stragglers, "A rank that is slower, such as 5:2x; several if wanted")
      ->type_name("RANK:FACTOR");
  app.add_option("--skew", skew, "Ranks start up to so many microseconds late, by lot")
      ->type_name("US")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", seed, "Of the lot; 1 if left out")->type_name("N");
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

SimulatedRow simulate_row(const SimulationRequest& asked, const Algorithm& row, const topology::Topology& topology,
                          std::uint64_t bytes) {
  SimulatedRow result;
  result.row = &row;
  result.ranks = row.verb == Verb::send_recv ? 2 : asked.ranks.value_or(topology.ranks());
  if (result.ranks < 1 || result.ranks > topology.ranks())
    refuse(fmt::format("-n must be 1 to {}, the ranks of {}", topology.ranks(), topology.name));
  if (asked.root < 0 || asked.root >= result.ranks) refuse(fmt::format("--root must be 0 to {}", result.ranks - 1));
  const bool chunks = schedule::facts_of(row.verb).cut == schedule::Cut::chunks;
  schedule::SimulateOptions options;
  const std::uint64_t share = options.element_bytes * (chunks ? static_cast<std::uint64_t>(result.ranks) : 1);
  options.count = std::max<std::uint64_t>(1, bytes / share);
  result.bytes = static_cast<double>(options.count * share);
  options.reduced_bytes_per_s = asked.reduce * 1e9;
  options.copied_bytes_per_s = asked.copy * 1e9;
  options.skew_s = asked.skew * 1e-6;
  options.seed = asked.seed;
  for (const std::string& text : asked.stragglers) options.stragglers.push_back(straggler_of(text));
  Offers offers;
  offers.inside = {false, false, true, false, 4, 0};
  offers.segment_bytes = bench::parse_bytes(asked.segment, "--segment");
  const auto before = std::chrono::steady_clock::now();
  result.simulated = schedule::simulate(schedule::lower_all(row, result.ranks, offers, asked.root), topology, options);
  result.took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  return result;
}

}  // namespace tutti::tools
