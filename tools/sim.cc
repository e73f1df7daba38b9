// tutti sim: a collective on a cluster that need not be there: how long it takes, which links are busy, who waits.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/simulation.h"
#include "tools/verbs.h"

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
  SimulationRequest request;
  std::string bytes = "1M";
  bool json = false;
};

void print_table(const std::vector<SimulatedRow>& outcomes) {
  fmt::print("  {:<22} {:>12} {:>12} {:>12}  {}\n", "algorithm", "time", "algbw", "busbw", "times the quickest");
  for (const SimulatedRow& outcome : outcomes) {
    fmt::print("  {:<22} {:>12} {:>12} {:>12}  {:.2f}\n", outcome.row->name, rounded_time(outcome.simulated.seconds),
               rounded_bandwidth(outcome.algbw()), rounded_bandwidth(outcome.busbw()),
               outcome.simulated.seconds / outcomes.front().simulated.seconds);
  }
}

void print_details(const SimulatedRow& outcome, const topology::Topology& topology) {
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

void print_json(const std::vector<SimulatedRow>& outcomes, const topology::Topology& topology) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SimulatedRow& outcome : outcomes) {
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
  const topology::Topology topology = find_topology(asked.request.topology);
  const std::uint64_t bytes = bench::parse_bytes(asked.bytes, "-b");
  std::vector<SimulatedRow> outcomes;
  for (const Algorithm* const row : asked.request.rows())
    outcomes.push_back(simulate_row(asked.request, *row, topology, bytes));
  std::stable_sort(outcomes.begin(), outcomes.end(), [](const SimulatedRow& a, const SimulatedRow& b) {
    return a.simulated.seconds < b.simulated.seconds;
  });
  if (asked.json) return print_json(outcomes, topology);
  const SimulatedRow& first = outcomes.front();
  fmt::print("{} of {:.4g} MB among {} ranks of {}:{}{}\n\n", asked.request.verb, first.bytes / 1e6, first.ranks,
             topology.name, topology.hosts, asked.request.algorithm.empty() ? "" : ", by " + asked.request.algorithm);
  if (asked.request.algorithm.empty()) return print_table(outcomes);
  print_details(first, topology);
}

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a collective on a cluster: time, busy links, who waits");
  const auto asked = std::make_shared<Sim>();
  asked->request.add_to(*sim);
  sim->add_option("-a,--algorithm", asked->request.algorithm, "A name from `tutti list`; all of them if left out")
      ->type_name("NAME");
  sim->add_option("-b,--bytes", asked->bytes, "The vector, or all chunks together; 1M if left out")->type_name("BYTES");
  sim->add_flag("--json", asked->json, "As JSON, for scripts");
  sim->footer(kSimExamples);
  sim->callback([asked, &exit_code] {
    run_sim(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
