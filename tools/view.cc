// tutti view: a page that plays a collective, a pipeline, a plan or the trace of a run; written to a file, or served to
// a browser.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/system_error.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/json.h"
#include "schedule/verbs.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/cost_sizes.h"
#include "tools/page_server.h"
#include "tools/pipeline_request.h"
#include "tools/programs_file.h"
#include "tools/selection.h"
#include "tools/trace/event_file.h"
#include "tools/verbs.h"
#include "tools/view/cluster.h"
#include "tools/view/page.h"
#include "tools/view/played.h"
#include "tools/view/shape.h"
#include "tools/view/timeline.h"
#include "tools/view/traced.h"

namespace tutti::tools {
namespace {

using schedule::Lowered;
using view::Json;

constexpr const char* kViewExamples = R"(Examples:
  tutti view all_reduce --algorithm ring -n 8               opens a browser on a page of this host, until Ctrl-C
  tutti view all_reduce -a ring -n 8 --output ring.html     the page as a file that needs nothing else
  tutti view all_reduce -n 16 --topology dgx-h100:2 -b 64M  where it would run, timed by the simulator
  tutti view all_reduce -a ring -n 8 --straggler 3:4x       one rank is slow; what tutti sim takes to be wrong
  tutti view --gallery --output gallery.html                every verb by every algorithm
  tutti view pipeline --schedule zb-h1 --stages 4           what the stages of a pipeline compute when
  tutti view --file mine.json                               programs, as tutti show --json writes them; a trace as
                                                            docs/trace.md has it; a plan of tutti plan --json
Keys in the page: space plays, arrows step, ? tells the others.)";

struct View {
  Selection selection;
  SimulationRequest conditions;  // of the simulation, its troubles
  std::string file, bytes = "1M", topology, output;
  bool json = false, gallery = false, serve = false;
};

// Whether only messages go between ranks, so that a cluster could run it.
bool only_messages(const std::vector<Lowered>& programs) {
  const auto is_message = [](const schedule::Operand& operand) {
    return operand.kind != schedule::Operand::Kind::window;
  };
  for (const Lowered& lowered : programs) {
    for (const schedule::Lane& lane : lowered.program.lanes) {
      for (const schedule::Step& step : lane.steps) {
        if (!std::all_of(step.destinations.begin(), step.destinations.end(), is_message) ||
            !std::all_of(step.sources.begin(), step.sources.end(), is_message))
          return false;
      }
    }
  }
  return true;
}

std::set<std::pair<int, int>> edges_of(const Json& document) {
  std::set<std::pair<int, int>> edges;
  for (const Json& frame : document.at("frames")) {
    for (const Json& move : frame.at("moves")) edges.emplace(move.at(1).get<int>(), move.at(2).get<int>());
  }
  return edges;
}

Json simulated(const std::vector<Lowered>& programs, const View& asked, const topology::Topology& topology,
               std::uint64_t bytes) {
  const schedule::Program& first = programs.front().program;
  schedule::SimulateOptions options = asked.conditions.conditions(topology);
  options.count = VectorCount::of(first.verb, first.ranks, bytes, options.element_bytes).count;
  options.history = true;
  options.fold = false;  // so that every rank is seen
  return view::timeline_json(schedule::simulate(programs, topology, options), topology);
}

SimulationRequest request_of(const View& asked, std::string_view verb, int ranks, int root,
                             const std::string& topology_words) {
  SimulationRequest request = asked.conditions;
  request.verb = verb;
  request.topology = topology_words;
  request.ranks = ranks;
  request.root = root;
  return request;
}

Json costs(const View& asked, const schedule::Program& program, const std::string& topology_words,
           const topology::Topology& topology) {
  const SimulationRequest request =
      request_of(asked, name_of(program.verb), program.ranks, program.root, topology_words);
  const QuickRows chosen = quick_rows(request, topology);
  const std::vector<PricedSize> sizes = price_sizes(request, {}, topology, chosen);
  Json bytes = Json::array(), quickest = Json::array(), rows = Json::array();
  for (std::size_t i = 0; i < sizes.front().rows.size(); ++i) {
    Json times = Json::array();
    for (const PricedSize& size : sizes) times.push_back(size.rows[i].simulated.seconds * 1e6);
    rows.push_back({{"name", sizes.front().rows[i].row->name}, {"us", std::move(times)}});
  }
  for (const PricedSize& size : sizes) {
    bytes.push_back(size.bytes);
    quickest.push_back(size.rows[size.quickest()].row->name);
  }
  return {{"topology", fmt::format("{}:{}", topology.name, topology.hosts)},
          {"sizes", std::move(bytes)},
          {"rows", std::move(rows)},
          {"quickest", std::move(quickest)}};
}

void require_room(const topology::Topology& topology, const std::string& words, int ranks) {
  if (topology.ranks() < ranks)
    refuse(fmt::format("--topology {} has {} ranks, fewer than {}: give it more hosts, {}:N", words, topology.ranks(),
                       ranks, topology.name));
}

// One that has room for so many ranks, where none is named.
std::string usual_cluster(int ranks) { return fmt::format("dgx-h100:{}", (ranks + 7) / 8); }

// What the programs do, and on a cluster: how long that takes, which ways it goes, and what else there would be.
Json document_of(const std::vector<Lowered>& programs, const View& asked, bool with_costs) {
  constexpr int kMostPriced = 64;
  const schedule::Program& first = programs.front().program;
  const std::uint64_t bytes = bench::parse_bytes(asked.bytes, "-b");
  Json document = view::played_json(programs, schedule::moves_data(first.verb) ? bytes : 0);
  const bool named = !asked.topology.empty();
  const std::string words = named ? asked.topology : usual_cluster(first.ranks);
  const topology::Topology topology = find_topology(words);
  require_room(topology, words, first.ranks);
  if (first.ranks < 2 || first.ranks > kMostPriced) return document;
  const bool runs = only_messages(programs) && document.at("proof").at("verified").get<bool>();
  if (runs) document["timeline"] = simulated(programs, asked, topology, bytes);
  if (runs && !document.contains("groups"))
    document["cluster"] = view::cluster_json(topology, first.ranks, edges_of(document));
  if (with_costs && schedule::moves_data(first.verb)) document["cost"] = costs(asked, first, words, topology);
  return document;
}

// What takes least there.
std::string_view quickest_on(const topology::Topology& topology, const View& asked, int ranks) {
  const SimulationRequest request =
      request_of(asked, asked.selection.verb, ranks, asked.selection.root, asked.topology);
  const PricedSize priced =
      price_sizes(request, {asked.bytes, asked.bytes}, topology, quick_rows(request, topology)).front();
  return priced.rows[priced.quickest()].row->name;
}

// The hosts of the cluster that is named, unless they are given, and the quickest algorithm there, unless one is.
Selection placed(const View& asked) {
  Selection selection = asked.selection;
  if (asked.topology.empty() || !selection.hosts.empty() || selection.transport != "memory") return selection;
  const topology::Topology topology = find_topology(asked.topology);
  const int ranks = selection.ranks.value_or(topology.ranks());
  selection.ranks = ranks;
  require_room(topology, asked.topology, ranks);
  if (selection.algorithm.empty() && !selection.verb.empty()) {
    verb_named(selection.verb);  // which tells the names there are
    selection.algorithm = quickest_on(topology, asked, ranks);
  }
  for (int host = 0, rank = 0; rank < std::min(ranks, topology.ranks()); ++host) {
    const int here = std::min(topology.first_rank(host + 1), ranks) - rank;
    selection.hosts += fmt::format("{}{}", selection.hosts.empty() ? "" : ",", here);
    rank += here;
  }
  if (topology.first_rank(1) >= ranks) selection.hosts.clear();
  return selection;
}

Json gallery() {
  constexpr int kRanks = 4;
  Json documents = Json::array();
  View asked;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    asked.selection.verb = name_of(row.verb);
    asked.selection.algorithm = row.name;
    asked.selection.ranks = row.verb == Verb::send_recv ? 2 : kRanks;
    asked.selection.hosts = row.hierarchical ? "2" : "";
    documents.push_back(document_of(asked.selection.programs(), asked, false));
  }
  return {{"version", view::kViewVersion},
          {"kind", "gallery"},
          {"title", "Every verb by every algorithm"},
          {"documents", std::move(documents)}};
}

Json document_of_pipeline(const RequestedPipeline& pipeline) {
  if (!pipeline.problem.empty()) refuse(pipeline.problem);
  Json document = {{"version", view::kViewVersion}, {"kind", "pipeline"}};
  document.update(json_of(pipeline));
  return document;
}

Json document_of_file(const View& asked) {
  if (!asked.selection.verb.empty()) refuse("a file says itself what it has: give either a verb or --file");
  const std::string text = text_of_file(asked.file);
  const Json parsed = Json::parse(text, nullptr, false);
  const std::string title = std::filesystem::path(asked.file).filename().string();
  // What is no whole JSON may be a trace that was cut off.
  if (parsed.is_discarded() || parsed.contains("traceEvents")) return view::traced_json(text, title);
  if (analysis::nests_too_deep(text)) refuse(fmt::format("{} nests too deep to be shown", asked.file));
  const auto require = [&](const char* kind, const std::string& wrong) {
    if (!wrong.empty()) refuse(fmt::format("{} is no {} that can be shown: {}", title, kind, wrong));
  };
  if (parsed.contains("bill") && parsed.contains("sentence")) {
    require("plan", view::wrong_with_plan(parsed));
    return {{"version", view::kViewVersion}, {"kind", "plan"}, {"plan", parsed}};
  }
  if (parsed.contains("microbatches") && parsed.contains("programs")) {
    require("pipeline", view::wrong_with_pipeline(parsed));
    Json document = {{"version", view::kViewVersion}, {"kind", "pipeline"}};
    document.update(parsed);
    return document;
  }
  if (view::is_simulation(parsed)) {
    refuse(fmt::format(
        "{} has the times of a simulation, not what moved when; tutti view {} --topology {}:{} -b {} plays it, with "
        "--straggler and its like as tutti sim has them",
        title, parsed.value("verb", ""), parsed.value("topology", ""), parsed.value("hosts", 1),
        parsed.value("bytes", 0.0)));
  }
  if (parsed.contains("kind") || (!parsed.contains("verb") && !parsed.contains("ranks"))) {
    refuse(fmt::format(
        "{} is nothing that the page plays: programs (tutti show --json), a trace (tutti run --trace), a plan (tutti "
        "plan --json) or a pipeline (tutti show pipeline --json)",
        title));
  }
  return document_of(schedule::from_json(text), asked, true);
}

void write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file) refuse(fmt::format("cannot write '{}'; is the path right?", path));
}

// A file of its own, for whoever opens it later.
std::string write_aside(const std::string& page) {
  constexpr std::string_view kEnding = ".html";
  std::string path = (std::filesystem::temp_directory_path() / "tutti-view-XXXXXX").string() + std::string(kEnding);
  const FileDescriptor file(::mkstemps(path.data(), static_cast<int>(kEnding.size())));
  if (!file.valid()) throw_errno("cannot write the page to " + path + " (--output FILE writes it elsewhere)");
  write_page(path, page);
  return path;
}

void show_page(const Json& document, const View& asked) {
  if (asked.json) return fmt::print("{}\n", json_text(document, -1));
  const std::string page = view::page_of(document);
  if (!asked.output.empty()) return write_page(asked.output, page);
  const std::optional<std::string> browser = find_browser();
  if (!browser && !asked.serve) {
    fmt::print("no browser is here to show it; the page is in\n  {}\n", write_aside(page));
    return;
  }
  PageServer server(page);
  fmt::print("the page is at {} until Ctrl-C\n", server.url());
  std::fflush(stdout);
  if (browser) open_in(*browser, server.url());
  server.run();
}

}  // namespace

void add_view(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("view", "Play a collective, a pipeline, a plan or a trace in a browser");
  const auto asked = std::make_shared<View>();
  asked->selection.add_to(*command);
  command->add_option("--file", asked->file, "Programs, a trace, a plan or a pipeline, as JSON; - is standard input")
      ->type_name("PATH");
  command->add_option("-b,--bytes", asked->bytes, "The vector, or all chunks together; 1M if left out")
      ->type_name("BYTES");
  command
      ->add_option("--topology", asked->topology,
                   "The cluster that it is timed on: a name of `tutti topo --list`, with :HOSTS, or a file; dgx-h100 "
                   "if left out")
      ->type_name("NAME");
  const auto add_outcome = [&](CLI::App* of) {
    of->add_option("-o,--output", asked->output, "Write the page to this file")->type_name("FILE");
    of->add_flag("--serve", asked->serve, "Serve the page even where no browser is found");
    of->add_flag("--json", asked->json, "Print what the page would play, as JSON");
  };
  asked->conditions.add_conditions_to(*command);
  add_outcome(command);
  const std::vector<CLI::Option*> of_one = command->get_options([](const CLI::Option* option) {
    constexpr std::string_view kOfAll[] = {"help", "output", "serve", "json"};
    return std::ranges::none_of(kOfAll, [&](std::string_view name) { return option->check_lname(std::string(name)); });
  });
  CLI::Option* const gallery_flag = command->add_flag("--gallery", asked->gallery, "All verbs by all algorithms");
  for (CLI::Option* const option : of_one) gallery_flag->excludes(option);
  command->footer(kViewExamples);
  CLI::App* pipeline = command->add_subcommand("pipeline", "What the stages of a pipeline compute when");
  const auto pipeline_asked = std::make_shared<PipelineRequest>();
  pipeline_asked->add_to(*pipeline);
  add_outcome(pipeline);
  command->callback([asked, pipeline_asked, command, &exit_code] {
    exit_code = 0;
    const Json document = command->got_subcommand("pipeline") ? document_of_pipeline(pipeline_asked->play())
                          : asked->gallery                    ? gallery()
                          : !asked->file.empty()              ? document_of_file(*asked)
                                                              : document_of(placed(*asked).programs(), *asked, true);
    if (asked->conditions.has_conditions() && !document.contains("timeline"))
      refuse("--straggler and its like change simulated times, of which there are none here");
    show_page(document, *asked);
  });
}

}  // namespace tutti::tools
