// tutti sim: a collective on a cluster that need not be there: how long it takes, which links are busy, who waits.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/simulate/simulate.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using schedule::Algorithm;
using schedule::Simulated;

constexpr const char* kSimExamples = R"(Examples:
  tutti sim all_reduce --topology dgx-h100:4 -b 1G                       every algorithm, the quickest first
  tutti sim all_reduce --topology dgx-h100:32 -b 256M -a ring            one: time, busy links, who waited
  tutti sim all_reduce --topology dgx-h100:4 -b 256M -a ring --straggler 5:2x
  tutti sim broadcast --topology cpu-10gbe:8 -n 64 -b 64M --skew 100     ranks start up to 100 us late, by lot
  tutti sim all_to_all --topology mine.topology -b 1M --json

Links are shared fairly (max-min); a message takes the latency of its links and then its bytes. Computing is free unless
--reduce and --copy say how fast a rank is. Algorithms that reach into others' memory are left out.)";

struct Sim {
  std::string verb, algorithm, topology, bytes = "1M", segment = "4M";
  std::optional<int> ranks;
  int root = 0;
  double reduce = 0, copy = 0, skew = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> stragglers;
  bool json = false;
};

Verb verb_of(const std::string& name) {
  std::string names;
  for (const schedule::VerbFacts& facts : schedule::kVerbTable) {
    if (name_of(facts.verb) == name) return facts.verb;
    names += (names.empty() ? "" : ", ") + std::string(name_of(facts.verb));
  }
  refuse(fmt::format("no verb '{}'; there are: {}", name, names));
}

bool runs_on_a_cluster(const Algorithm& row) { return !row.user_windows && !row.scratch_windows && !row.single_copy; }

std::vector<const Algorithm*> rows_of(const Sim& asked) {
  const Verb verb = verb_of(asked.verb);
  std::vector<const Algorithm*> rows;
  std::string names;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.verb != verb || !runs_on_a_cluster(row)) continue;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (asked.algorithm.empty() || row.name == asked.algorithm) rows.push_back(&row);
  }
  if (rows.empty())
    refuse(fmt::format("no algorithm '{}' of messages for {}; there are: {}", asked.algorithm, asked.verb, names));
  return rows;
}

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

struct Outcome {
  const Algorithm* row = nullptr;
  Simulated simulated;
  double bytes = 0;
  int ranks = 0;
  double took_s = 0;

  double algbw() const { return bytes / simulated.seconds; }
  double busbw() const { return algbw() * schedule::least_moved(row->verb, ranks); }
};

Outcome simulate_row(const Sim& asked, const Algorithm& row, const topology::Topology& topology) {
  Outcome outcome;
  outcome.row = &row;
  outcome.ranks = row.verb == Verb::send_recv ? 2 : asked.ranks.value_or(topology.ranks());
  if (outcome.ranks < 1 || outcome.ranks > topology.ranks())
    refuse(fmt::format("-n must be 1 to {}, the ranks of {}", topology.ranks(), topology.name));
  if (asked.root < 0 || asked.root >= outcome.ranks) refuse(fmt::format("--root must be 0 to {}", outcome.ranks - 1));
  const bool chunks = schedule::facts_of(row.verb).cut == schedule::Cut::chunks;
  schedule::SimulateOptions options;
  const std::uint64_t share = options.element_bytes * (chunks ? static_cast<std::uint64_t>(outcome.ranks) : 1);
  options.count = std::max<std::uint64_t>(1, bench::parse_bytes(asked.bytes, "-b") / share);
  outcome.bytes = static_cast<double>(options.count * share);
  options.reduced_bytes_per_s = asked.reduce * 1e9;
  options.copied_bytes_per_s = asked.copy * 1e9;
  options.skew_s = asked.skew * 1e-6;
  options.seed = asked.seed;
  for (const std::string& text : asked.stragglers) options.stragglers.push_back(straggler_of(text));
  Offers offers;
  offers.inside = {false, false, true, false, 4, 0};
  offers.segment_bytes = bench::parse_bytes(asked.segment, "--segment");
  const auto before = std::chrono::steady_clock::now();
  outcome.simulated =
      schedule::simulate(schedule::lower_all(row, outcome.ranks, offers, asked.root), topology, options);
  outcome.took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  return outcome;
}

void print_table(const std::vector<Outcome>& outcomes) {
  fmt::print("  {:<22} {:>12} {:>12} {:>12}  {}\n", "algorithm", "time", "algbw", "busbw", "times the quickest");
  for (const Outcome& outcome : outcomes) {
    fmt::print("  {:<22} {:>12} {:>12} {:>12}  {:.2f}\n", outcome.row->name, rounded_time(outcome.simulated.seconds),
               rounded_bandwidth(outcome.algbw()), rounded_bandwidth(outcome.busbw()),
               outcome.simulated.seconds / outcomes.front().simulated.seconds);
  }
}

void print_details(const Outcome& outcome, const topology::Topology& topology) {
  constexpr std::size_t kMost = 5;
  const Simulated& simulated = outcome.simulated;
  fmt::print("  time            {}\n  algbw, busbw    {}, {}\n", rounded_time(simulated.seconds),
             rounded_bandwidth(outcome.algbw()), rounded_bandwidth(outcome.busbw()));
  fmt::print("\n  the busiest links\n");
  for (std::size_t i = 0; i < std::min(kMost, simulated.links.size()); ++i)
    fmt::print("    {:5.1f} %  {:<44} {}\n", 100 * simulated.links[i].utilisation,
               topology.words_of(simulated.links[i].link),
               rounded_bandwidth(topology.speed_of(simulated.links[i].link).bytes_per_s));
  fmt::print("\n  who waited for whom\n");
  for (std::size_t i = 0; i < std::min(kMost, simulated.waits.size()); ++i)
    fmt::print("    {:>10}  rank {} for rank {}\n", rounded_time(simulated.waits[i].seconds), simulated.waits[i].rank,
               simulated.waits[i].peer);
  fmt::print("\n  simulated with {} events and {} changes of rates in {}\n", simulated.events, simulated.rate_changes,
             rounded_time(outcome.took_s));
}

void print_json(const std::vector<Outcome>& outcomes, const topology::Topology& topology) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    rows.push_back({{"algorithm", outcome.row->name},
                    {"seconds", outcome.simulated.seconds},
                    {"algbw_bytes_per_s", outcome.algbw()},
                    {"busbw_bytes_per_s", outcome.busbw()},
                    {"events", outcome.simulated.events},
                    {"rate_changes", outcome.simulated.rate_changes}});
  }
  const nlohmann::ordered_json document{{"verb", name_of(outcomes.front().row->verb)},
                                        {"topology", topology.name},
                                        {"hosts", topology.hosts},
                                        {"ranks", outcomes.front().ranks},
                                        {"bytes", outcomes.front().bytes},
                                        {"algorithms", rows}};
  fmt::print("{}\n", document.dump(2));
}

void run_sim(const Sim& asked) {
  const topology::Topology topology = find_topology(asked.topology);
  std::vector<Outcome> outcomes;
  for (const Algorithm* const row : rows_of(asked)) outcomes.push_back(simulate_row(asked, *row, topology));
  std::stable_sort(outcomes.begin(), outcomes.end(),
                   [](const Outcome& a, const Outcome& b) { return a.simulated.seconds < b.simulated.seconds; });
  if (asked.json) return print_json(outcomes, topology);
  const Outcome& first = outcomes.front();
  fmt::print("{} of {:.4g} MB among {} ranks of {}:{}{}\n\n", asked.verb, first.bytes / 1e6, first.ranks, topology.name,
             topology.hosts, asked.algorithm.empty() ? "" : ", by " + asked.algorithm);
  if (asked.algorithm.empty()) return print_table(outcomes);
  print_details(first, topology);
}

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a collective on a cluster: time, busy links, who waits");
  const auto asked = std::make_shared<Sim>();
  sim->add_option("verb", asked->verb, "The collective")->type_name("VERB")->required();
  sim->add_option("--topology", asked->topology, "The cluster: a name of `tutti topo`, with :HOSTS, or a file")
      ->type_name("NAME")
      ->required();
  sim->add_option("-a,--algorithm", asked->algorithm, "A name from `tutti list`; all of them if left out")
      ->type_name("NAME");
  sim->add_option("-b,--bytes", asked->bytes, "The vector, or all chunks together; 1M if left out")->type_name("BYTES");
  sim->add_option("-n,--ranks", asked->ranks, "The first so many ranks of the cluster; all if left out")
      ->type_name("N");
  sim->add_option("--root", asked->root, "The rank that a rooted verb starts from or ends at")->type_name("RANK");
  sim->add_option("--segment", asked->segment, "Pieces that long vectors are cut into; 4M if left out")
      ->type_name("BYTES");
  sim->add_option("--reduce", asked->reduce, "GB/s at which a rank reduces; free if left out")
      ->type_name("GB/S")
      ->check(CLI::PositiveNumber);
  sim->add_option("--copy", asked->copy, "GB/s at which a rank copies; free if left out")
      ->type_name("GB/S")
      ->check(CLI::PositiveNumber);
  sim->add_option("--straggler", asked->stragglers, "A rank that is slower, such as 5:2x; several if wanted")
      ->type_name("RANK:FACTOR");
  sim->add_option("--skew", asked->skew, "Ranks start up to so many microseconds late, by lot")
      ->type_name("US")
      ->check(CLI::NonNegativeNumber);
  sim->add_option("--seed", asked->seed, "Of the lot; 1 if left out")->type_name("N");
  sim->add_flag("--json", asked->json, "As JSON, for scripts");
  sim->footer(kSimExamples);
  sim->callback([asked, &exit_code] {
    run_sim(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
