// tutti cost: every algorithm of a verb over sizes, on a cluster: which is the quickest where, and where that changes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/cost_sizes.h"
#include "tools/curves.h"
#include "tools/simulation.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kCostExamples = R"(Examples:
  tutti cost all_reduce --topology dgx-h100:8                        1 KB to 64 MB, every algorithm of messages
  tutti cost all_gather --topology cpu-25gbe:4 -b 1K -e 16M -f 2     a finer look
  tutti cost all_reduce -n 64 --topology dgx-h100:8 --svg cost.svg   times over sizes as a picture
  tutti cost broadcast --topology wan-4-sites:8 --json               for scripts

Times are simulated, as `tutti sim` does it: links are shared fairly, computing is free unless --reduce and --copy are
given. * marks the quickest for a size.)";

struct CostRequest {
  SimulationRequest request;
  SizesToPrice sizes;
  std::string plot;
  bool json = false;
};

void print_table(const std::vector<PricedSize>& sizes, const topology::Topology& topology, const std::string& verb) {
  const std::vector<SimulatedRow>& first = sizes.front().rows;
  fmt::print("{} among {} ranks of {}:{}, times in us\n\n  {:>8}", verb, first.front().ranks, topology.name,
             topology.hosts, "");
  for (const SimulatedRow& row : first)
    fmt::print(" {:>{}}", row.row->name, std::max<std::size_t>(11, row.row->name.size() + 1));
  fmt::print("\n");
  for (const PricedSize& size : sizes) {
    fmt::print("  {:>8}", bench::text_of_bytes(size.bytes));
    for (std::size_t i = 0; i < size.rows.size(); ++i) {
      const std::size_t width = std::max<std::size_t>(11, size.rows[i].row->name.size() + 1);
      fmt::print(" {:>{}}",
                 fmt::format("{}{:.4g}", i == size.quickest() ? "*" : "", size.rows[i].simulated.seconds * 1e6), width);
    }
    fmt::print("\n");
  }
  fmt::print("\n  the quickest\n");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string_view name = sizes[i].rows[sizes[i].quickest()].row->name;
    if (i > 0 && sizes[i - 1].rows[sizes[i - 1].quickest()].row->name == name) continue;
    fmt::print("    from {:>8}  {}\n", bench::text_of_bytes(sizes[i].bytes), name);
  }
}

void print_json(const std::vector<PricedSize>& sizes, const topology::Topology& topology, const std::string& verb,
                const QuickRows& chosen) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PricedSize& size : sizes) {
    nlohmann::ordered_json times;
    for (const SimulatedRow& row : size.rows) times[std::string(row.row->name)] = row.simulated.seconds;
    rows.push_back({{"bytes", size.bytes}, {"quickest", size.rows[size.quickest()].row->name}, {"seconds", times}});
  }
  const nlohmann::ordered_json document{{"verb", verb},
                                        {"topology", topology.name},
                                        {"hosts", topology.hosts},
                                        {"ranks", sizes.front().rows.front().ranks},
                                        {"sizes", rows},
                                        {"left_out", chosen.json()}};
  fmt::print("{}\n", json_text(document, 2));
}

void plot(const std::vector<PricedSize>& sizes, const topology::Topology& topology, const CostRequest& asked) {
  std::vector<std::uint64_t> bytes;
  std::vector<Curve> curves;
  for (const SimulatedRow& row : sizes.front().rows) curves.push_back({std::string(row.row->name), {}});
  for (const PricedSize& size : sizes) {
    bytes.push_back(size.bytes);
    for (std::size_t i = 0; i < curves.size(); ++i) curves[i].seconds.push_back(size.rows[i].simulated.seconds);
  }
  write_picture(asked.plot, curves_of(bytes, curves,
                                      fmt::format("{} among {} ranks of {}:{}", asked.request.verb,
                                                  sizes.front().rows.front().ranks, topology.name, topology.hosts)));
}

}  // namespace

void add_cost(CLI::App& app, int& exit_code) {
  CLI::App* cost = app.add_subcommand("cost", "Price the algorithms of a verb over sizes, on a cluster");
  const auto asked = std::make_shared<CostRequest>();
  asked->request.add_to(*cost);
  cost->add_option("-b,--begin", asked->sizes.begin, "Smallest size; 1K if left out")->type_name("BYTES");
  cost->add_option("-e,--end", asked->sizes.end, "Largest size; 64M if left out")->type_name("BYTES");
  cost->add_option("-f,--factor", asked->sizes.factor, "From one size to the next; 4 if left out")
      ->type_name("X")
      ->check(number_between(1.01, 1e6));
  cost->add_option("--svg,--plot", asked->plot, "Writes a picture: time over size, a line for each algorithm")
      ->type_name("FILE.svg");
  cost->add_flag("--json", asked->json, "As JSON, for scripts");
  cost->footer(kCostExamples);
  cost->callback([asked, &exit_code] {
    const topology::Topology topology = find_topology(asked->request.topology);
    const QuickRows chosen = quick_rows(asked->request, topology);
    const std::vector<PricedSize> sizes = price_sizes(asked->request, asked->sizes, topology, chosen);
    if (!asked->plot.empty()) plot(sizes, topology, *asked);
    exit_code = 0;
    if (asked->json) return print_json(sizes, topology, asked->request.verb, chosen);
    print_table(sizes, topology, asked->request.verb);
    if (!chosen.left_out.empty()) fmt::print("\n  {}; `tutti sim -a NAME` does it\n", chosen.words());
  });
}

}  // namespace tutti::tools
