// tutti sim: a collective on a cluster that need not be there: how long it takes, which links are busy, who waits.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_text.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/simulation.h"
#include "tools/svg.h"
#include "tools/timeline.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using schedule::Algorithm;
using schedule::Simulated;

constexpr std::size_t kMostLines = 5;  // of a list for people

constexpr const char* kSimExamples = R"(Examples:
  tutti sim all_reduce --topology dgx-h100:4 -b 1G                       every algorithm, the quickest first
  tutti sim all_reduce --topology dgx-h100:32 -b 256M -a ring            one: time, links, waits, critical path
  tutti sim all_reduce --topology dgx-h100:4 -b 256M -a ring --straggler 5:2x --svg ring.svg
  tutti sim all_gather --topology dgx-h100:4 -a bruck --slow-link 'ndr 3 of host 1 and leaf 3:4x'
  tutti sim all_to_all --topology dgx-h100:4 -b 64M --failed-link 'leaf 0 and spine 1' --background 16:4M
  tutti sim broadcast --topology cpu-10gbe:8 -n 64 -b 64M --skew 100     ranks start up to 100 us late, by lot
  tutti sim all_to_all --topology mine.topology -b 1M --json

Links are shared fairly (max-min); a message takes the latency of its links and then its bytes. Computing is free
unless --reduce and --copy say how fast a rank is. Algorithms that reach into others' memory are left out. Ranks that
fare alike are simulated once, which changes no figure; among 512 ranks and more the size is rounded up for that, by
1 % at most. Rows of many ranks that would take minutes are left out unless named: the report says which, JSON in
"left_out".)";

struct Sim {
  SimulationRequest request;
  std::string bytes = "1M", plot;
  bool json = false;
};

// "16 x 4 MB"
std::string segments_of(const SimulatedRow& outcome) {
  if (outcome.segment_bytes == 0) return "-";
  return fmt::format("{} x {}", outcome.segments, bench::text_of_bytes(outcome.segment_bytes));
}

void print_table(const std::vector<SimulatedRow>& outcomes) {
  fmt::print("  {:<22} {:>12} {:>12} {:>12} {:>14}  {}\n", "algorithm", "time", "algbw", "busbw", "segments",
             "times the quickest");
  for (const SimulatedRow& outcome : outcomes) {
    fmt::print("  {:<22} {:>12} {:>12} {:>12} {:>14}  {:.2f}\n", outcome.row->name,
               rounded_time(outcome.simulated.seconds), rounded_bandwidth(outcome.algbw()),
               rounded_bandwidth(outcome.busbw()), segments_of(outcome),
               outcome.simulated.seconds == 0 ? 1 : outcome.simulated.seconds / outcomes.front().simulated.seconds);
  }
}

std::string and_alike(std::uint32_t alike, const char* what) {
  return alike == 1 ? "" : fmt::format(", and {} more {} alike", alike - 1, what);
}

void print_links(const Simulated& simulated, const topology::Topology& topology) {
  fmt::print("\n  the busiest links\n");
  for (std::size_t i = 0; i < std::min(kMostLines, simulated.links.size()); ++i) {
    const Simulated::Link& link = simulated.links[i];
    fmt::print("    {:5.1f} %  {:<44} {}{}\n", 100 * link.utilisation, topology.words_of(link.link),
               rounded_bandwidth(topology.speed_of(link.link).bytes_per_s), and_alike(link.alike, "links"));
  }
}

void print_waits(const Simulated& simulated) {
  fmt::print("\n  who waited for whom\n");
  if (simulated.waits.empty()) fmt::print("    nobody\n");
  for (std::size_t i = 0; i < std::min(kMostLines, simulated.waits.size()); ++i) {
    const Simulated::Wait& wait = simulated.waits[i];
    constexpr const char* kFor[] = {"a message of", "room for its message at", "a step of"};
    fmt::print("    {:>10}  rank {} for {} rank {}{}\n", rounded_time(wait.seconds), wait.rank,
               kFor[static_cast<std::size_t>(wait.cause)], wait.peer, and_alike(wait.alike, "ranks"));
  }
}

void print_path(const Simulated& simulated) {
  const Simulated::Path& path = simulated.path;
  if (path.hops.empty()) return;  // nobody had a step to do
  fmt::print("\n  the critical path, {} steps{}\n", path.steps,
             path.whole ? "" : ": the last ones, earlier ones are lost");
  const auto part = [&](double seconds, const char* words) {
    if (seconds > 0 && seconds >= 0.0005 * simulated.seconds)
      fmt::print("    {:5.1f} %  {:>10}  {}\n", 100 * seconds / simulated.seconds, rounded_time(seconds), words);
  };
  part(path.begin_s, path.whole ? "before its first rank started" : "before them");
  part(path.spent.computing_s, "computing");
  part(path.spent.queueing_s, "behind what the same rank had to do first");
  part(path.spent.sending_s, "sending, as fast as the links are");
  part(path.spent.sharing_s, "sending more slowly, because links are shared or the rank is slow");
  part(path.spent.latency_s, "latency of links");
  std::vector<std::size_t> longest;
  for (std::size_t i = 1; i < path.hops.size(); ++i) longest.push_back(i);
  std::stable_sort(longest.begin(), longest.end(),
                   [&](std::size_t a, std::size_t b) { return path.hops[a].spent.sum() > path.hops[b].spent.sum(); });
  fmt::print("  its longest parts\n");
  for (std::size_t i = 0; i < std::min(kMostLines, longest.size()); ++i) {
    const Simulated::Hop &before = path.hops[longest[i] - 1], &hop = path.hops[longest[i]];
    fmt::print("    {:>10}  rank {}{}, from {} on\n", rounded_time(hop.spent.sum()), before.rank,
               before.rank == hop.rank ? "" : fmt::format(" to rank {}", hop.rank), rounded_time(before.fired_s));
  }
}

void print_details(const SimulatedRow& outcome, const topology::Topology& topology) {
  const Simulated& simulated = outcome.simulated;
  fmt::print("  time            {}\n  algbw, busbw    {}, {}\n  segments        {}\n", rounded_time(simulated.seconds),
             rounded_bandwidth(outcome.algbw()), rounded_bandwidth(outcome.busbw()), segments_of(outcome));
  print_links(simulated, topology);
  print_waits(simulated);
  print_path(simulated);
  fmt::print("\n  simulated in {}: {} events ({:.3g} million/s), {} changes of rates, at most {} of memory\n",
             rounded_time(outcome.took_s), simulated.events,
             static_cast<double>(simulated.events) / outcome.took_s / 1e6, simulated.rate_changes,
             bench::text_of_bytes(peak_memory()));
  if (simulated.simulated_ranks < outcome.ranks)
    fmt::print("  folded: {} of {} ranks stand for all, because the others fare like one of them\n",
               simulated.simulated_ranks, outcome.ranks);
}

using Json = nlohmann::ordered_json;

Json json_of(const Simulated::Spent& spent) {
  return {{"computing_s", spent.computing_s},
          {"queueing_s", spent.queueing_s},
          {"sending_s", spent.sending_s},
          {"sharing_s", spent.sharing_s},
          {"latency_s", spent.latency_s}};
}

Json json_of(const Simulated::Path& path) {
  Json hops = Json::array();
  constexpr std::size_t kMostHops = 1000;
  for (std::size_t i = path.hops.size() - std::min(kMostHops, path.hops.size()); i < path.hops.size(); ++i) {
    const Simulated::Hop& hop = path.hops[i];
    hops.push_back({{"rank", hop.rank},
                    {"lane", hop.lane},
                    {"step", hop.step},
                    {"segment", hop.segment},
                    {"fired_s", hop.fired_s},
                    {"spent", json_of(hop.spent)}});
  }
  return {{"steps", path.steps},
          {"whole", path.whole},
          {"begin_s", path.begin_s},
          {"spent", json_of(path.spent)},
          {"last_hops", hops}};
}

Json json_of(const SimulatedRow& outcome, const topology::Topology& topology) {
  const Simulated& simulated = outcome.simulated;
  constexpr std::size_t kMost = 100;
  Json links = Json::array(), waits = Json::array();
  for (std::size_t i = 0; i < std::min(kMost, simulated.links.size()); ++i) {
    const Simulated::Link& link = simulated.links[i];
    links.push_back({{"link", topology.words_of(link.link)},
                     {"utilisation", link.utilisation},
                     {"bytes", link.bytes},
                     {"capacity_bytes_per_s", topology.speed_of(link.link).bytes_per_s},
                     {"alike", link.alike}});
  }
  for (std::size_t i = 0; i < std::min(kMost, simulated.waits.size()); ++i) {
    const Simulated::Wait& wait = simulated.waits[i];
    waits.push_back({{"rank", wait.rank},
                     {"peer", wait.peer},
                     {"for", name_of(wait.cause)},
                     {"seconds", wait.seconds},
                     {"alike", wait.alike}});
  }
  Json row{{"algorithm", outcome.row->name},
           {"seconds", simulated.seconds},
           {"algbw_bytes_per_s", outcome.algbw()},
           {"busbw_bytes_per_s", outcome.busbw()},
           {"segments", outcome.segments},
           {"segment_bytes", outcome.segment_bytes},
           {"simulated_ranks", simulated.simulated_ranks},
           {"events", simulated.events},
           {"rate_changes", simulated.rate_changes},
           {"took_s", outcome.took_s},
           {"busiest_links", links},
           {"longest_waits", waits}};
  if (!simulated.path.hops.empty()) row["critical_path"] = json_of(simulated.path);
  return row;
}

void print_json(const std::vector<SimulatedRow>& outcomes, const topology::Topology& topology,
                const QuickRows& chosen) {
  Json rows = Json::array();
  for (const SimulatedRow& outcome : outcomes) rows.push_back(json_of(outcome, topology));
  const Json document{{"verb", name_of(outcomes.front().row->verb)},
                      {"topology", topology.name},
                      {"hosts", topology.hosts},
                      {"ranks", outcomes.front().ranks},
                      {"bytes", outcomes.front().bytes},
                      {"peak_memory_bytes", peak_memory()},
                      {"algorithms", rows},
                      {"left_out", chosen.json()}};
  fmt::print("{}\n", json_text(document, 2));
}

std::string title_of(const SimulatedRow& outcome, const topology::Topology& topology) {
  return fmt::format("{} of {:.4g} MB among {} ranks of {}:{}", name_of(outcome.row->verb), outcome.bytes / 1e6,
                     outcome.ranks, topology.name, topology.hosts);
}

void run_sim(const Sim& asked) {
  const topology::Topology topology = find_topology(asked.request.topology);
  const std::uint64_t bytes = bench::parse_bytes(asked.bytes, "-b");
  SimulationRequest request = asked.request;
  request.history = !request.algorithm.empty();
  std::vector<SimulatedRow> outcomes;
  const QuickRows chosen = quick_rows(request, topology);
  for (const Algorithm* const row : chosen.rows) outcomes.push_back(simulate_row(request, *row, topology, bytes));
  std::stable_sort(outcomes.begin(), outcomes.end(), [](const SimulatedRow& a, const SimulatedRow& b) {
    return a.simulated.seconds < b.simulated.seconds;
  });
  const SimulatedRow& first = outcomes.front();
  if (!asked.plot.empty()) {
    // Of several, the quickest: once more, so that it is remembered what ranks did.
    request.history = true;
    const Simulated drawn =
        request.algorithm.empty() ? simulate_row(request, *first.row, topology, bytes).simulated : first.simulated;
    write_picture(asked.plot, timeline_of(drawn, fmt::format("{}, by {}: {}", title_of(first, topology),
                                                             first.row->name, rounded_time(drawn.seconds))));
  }
  if (asked.json) return print_json(outcomes, topology, chosen);
  fmt::print("{}{}\n", title_of(first, topology), request.algorithm.empty() ? "" : ", by " + request.algorithm);
  if (first.bytes != first.asked_bytes)
    fmt::print("  rounded up from {:.6g} to {:.6g} MB, so that all blocks are alike and ranks can be folded\n",
               first.asked_bytes / 1e6, first.bytes / 1e6);
  fmt::print("\n");
  if (!request.algorithm.empty()) return print_details(first, topology);
  print_table(outcomes);
  if (!chosen.left_out.empty()) fmt::print("\n  {}; -a NAME does it\n", chosen.words());
  fmt::print("\n  simulated in {}, at most {} of memory; -a NAME tells more of one\n",
             rounded_time(std::accumulate(outcomes.begin(), outcomes.end(), 0.0,
                                          [](double sum, const SimulatedRow& row) { return sum + row.took_s; })),
             bench::text_of_bytes(peak_memory()));
}

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  CLI::App* sim = app.add_subcommand("sim", "Simulate a collective on a cluster: time, busy links, who waits");
  const auto asked = std::make_shared<Sim>();
  asked->request.add_to(*sim);
  sim->add_option("-a,--algorithm", asked->request.algorithm, "A name from `tutti list`; all of them if left out")
      ->type_name("NAME");
  sim->add_option("-b,--bytes", asked->bytes, "The vector, or all chunks together; 1M if left out")->type_name("BYTES");
  sim->add_option("--svg,--plot", asked->plot, "Writes a timeline: what the first 64 ranks did, and the critical path")
      ->type_name("FILE.svg");
  sim->add_flag("--json", asked->json, "As JSON, for scripts");
  sim->footer(kSimExamples);
  sim->callback([asked, &exit_code] {
    run_sim(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
