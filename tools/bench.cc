// tutti bench: times the verbs on this machine, as nccl-tests does, and beside them other libraries in the same run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "base/environment.h"
#include "base/nearest_names.h"
#include "rendezvous/host.h"
#include "schedule/readers/verify.h"
#include "schedule/verbs.h"
#include "tools/bench/figures.h"
#include "tools/bench/implementations.h"
#include "tools/bench/plot.h"
#include "tools/bench/progress.h"
#include "tools/bench/rank.h"
#include "tools/bench/ratios.h"
#include "tools/bench/sizes.h"
#include "tools/bench/suite.h"
#include "tools/bench/table.h"
#include "tools/programs_file.h"
#include "tools/verbs.h"
#include "topology/discover/cores.h"
#include "topology/discover/cost_file.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using namespace bench;

constexpr const char* kBenchExamples = R"(Examples:
  tutti bench all_reduce -n 4                                    8 bytes to 64 MB, four ranks of this host
  tutti bench all_reduce -n 2 -b 8 -e 64M -f 2 -d float32 -o sum
  tutti bench all -n 2 --against all                             every verb, beside every library that is installed
  tutti bench all_gather,broadcast -n 4 --transport tcp --against openmpi,gloo
  tutti bench all_reduce -n 2 --buffers both --against limit     how near to what the machine can do
  tutti bench all_reduce --ranks 2..8 -b 16M -e 16M --svg scaling.svg
  tutti bench all_reduce -n 2 --algorithms all                   every algorithm, and what the choice costs
  tutti bench all_reduce -n 4 --schedule mine.json               a schedule of your own, verified first, beside ours
  tutti bench all_reduce -n 8 --netns a,b,c,d --map-by node      four hosts, as `ip netns add` makes them
  tutti bench all_reduce -n 2 --json out.json --csv out.csv --svg out.svg
  tutti bench all_reduce -n 4 --memory device --against torch-gloo   four ranks on the first GPU
  tutti bench all_reduce -n 4 --memory devices    a GPU to each of four ranks, as far as there are that many
  tutti bench figures                                            the figures that Tutti is held to, on this machine

Columns are those of nccl-tests: algbw = size / time, busbw = algbw x what the hardware has to move, 1 GB = 1e9 bytes;
size is the vector, or all chunks together. Times are medians over rounds of the slowest rank's mean per call; +- is
half the distance between the quartiles; predicted is what the costs by which algorithms are chosen say (tutti tune
measures them). Implementations take turns round by round, one process per rank, rank r pinned to the r-th core.
Peers: openmpi, mpich, gloo, torch-gloo, limit (the minimum written by hand), or the path of a driver of your own that
speaks the lines of tools/bench/driver/protocol.h. With --netns, tutti-flat is Tutti told that every rank is a host of
its own. An idle machine gives honest numbers.)";

struct BenchOptions {
  std::string verbs;
  std::string ranks = "2";
  std::string transport = "auto";
  std::string begin = "8", end = "64M", step, rotate_bytes = "256M";
  double factor = 2;
  std::string type = "float32", op = "sum";
  int root = 0;
  int check = 1;
  std::string buffers = "ordinary", memory = "host";
  bool rotate = false;
  std::string against;
  std::string algorithms;
  bool no_pin = false;
  int runs = 1;
  std::string json, csv, plot;
  std::string tuned, schedule;
  std::string namespaces, map_by = "slot";
  Effort effort;
};

// Names as nccl-tests and MPI users write them.
std::string full_name(const std::string& name) {
  static const std::map<std::string, std::string> kOther{
      {"float", "float32"}, {"double", "float64"},     {"half", "float16"}, {"bool", "boolean"},
      {"prod", "product"},  {"min", "minimum"},        {"max", "maximum"},  {"avg", "average"},
      {"bf16", "bfloat16"}, {"alltoall", "all_to_all"}};
  const auto found = kOther.find(name);
  return found == kOther.end() ? name : found->second;
}

template <class Enum, std::size_t kNumber>
Enum named(const std::string& text, const char* what) {
  if (const auto found = enum_named<Enum, kNumber>(full_name(text))) return *found;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kNumber; ++i) names.push_back(name_of(static_cast<Enum>(i)));
  refuse(none_called(what, text, names));
}

std::vector<Verb> verbs_of(const std::string& text) {
  std::vector<Verb> verbs;
  if (text == "all") {
    for (std::size_t i = 0; i < kVerbs; ++i) verbs.push_back(static_cast<Verb>(i));
    return verbs;
  }
  for (const std::string& word : parse_list(text)) verbs.push_back(named<Verb, kVerbs>(word, "verb"));
  if (verbs.empty()) refuse("name a verb, several with commas between, or all; or figures");
  return verbs;
}

// Those asked for and there; what is missing is said, and only a name that nobody knows is an error.
std::vector<std::string> peers_of(const std::string& text, const Plan& plan) {
  std::vector<std::string> wanted = parse_list(text), there;
  const bool all = wanted == std::vector<std::string>{"all"};
  if (all) wanted = known_peers();
  for (const std::string& name : wanted) {
    if (const auto reason = why_missing(name, plan.transport, !plan.namespaces.empty(), plan.on_device)) {
      say("bench", fmt::format("{} is left out: {}", name, *reason));
    } else {
      there.push_back(name);
    }
  }
  return there;
}

// The file is to be for what is measured, and right: nothing is started for one that is not.
std::string schedule_of(const BenchOptions& asked, const Plan& plan) {
  if (asked.schedule.empty()) return "";
  const std::vector<schedule::Lowered> programs = programs_of_file(asked.schedule);
  const schedule::Program& first = programs.front().program;
  if (plan.verbs != std::vector{first.verb})
    refuse(fmt::format("'{}' is a schedule of {}: measure that verb", asked.schedule, name_of(first.verb)));
  if (plan.ranks != std::vector{first.ranks})
    refuse(fmt::format("'{}' is for {} ranks: measure with -n {}", asked.schedule, first.ranks, first.ranks));
  if (schedule::facts_of(first.verb).rooted && plan.root != first.root)
    refuse(fmt::format("'{}' is for root {}: measure with -r {}", asked.schedule, first.root, first.root));
  const schedule::VerifyReport report = schedule::verify_calls(programs, false);
  if (!report.ok()) refuse(fmt::format("'{}' does not verify: {}", asked.schedule, text_of(report.problems.front())));
  return fmt::format("{}={}", name_of(first.verb), std::filesystem::absolute(asked.schedule).string());
}

Plan plan_of(const BenchOptions& asked) {
  Plan plan;
  plan.verbs = verbs_of(asked.verbs);
  plan.ranks = parse_ranks(asked.ranks, "-n");
  plan.transport = asked.transport;
  Sizes sizes{parse_bytes(asked.begin, "-b"), parse_bytes(asked.end, "-e"), 0, asked.factor};
  if (!asked.step.empty()) sizes.step = parse_bytes(asked.step, "-i");
  plan.sizes = sizes_of(sizes);
  plan.type = named<DType, kDTypes>(asked.type, "type");
  plan.op = named<ReduceOp, kReduceOps>(asked.op, "operator");
  plan.root = asked.root;
  plan.ordinary = asked.buffers != "symmetric";
  plan.symmetric = asked.buffers != "ordinary";
  plan.on_device = asked.memory != "host";
  plan.own_devices = asked.memory == "devices";
  plan.rotate_bytes = asked.rotate ? parse_bytes(asked.rotate_bytes, "--rotate-bytes") : 0;
  plan.all_algorithms = asked.algorithms == "all";
  plan.pinned = !asked.no_pin;
  plan.tuned_costs = asked.tuned;
  plan.namespaces = parse_list(asked.namespaces);
  network_namespaces(plan.namespaces);  // now, not after a start
  plan.round_hosts = asked.map_by == "node";
  if (plan.round_hosts && plan.namespaces.empty()) refuse("--map-by is about several hosts: name them with --netns");
  plan.schedule = schedule_of(asked, plan);
  plan.effort = asked.effort;
  plan.effort.check = asked.check != 0;
  check_plan(plan);
  plan.against = peers_of(asked.against, plan);
  return plan;
}

// Opened before anything is measured: a path that cannot be written must not cost an hour.
class OutFile {
 public:
  explicit OutFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    stream_.open(path);
    if (!stream_) refuse(fmt::format("cannot write '{}'; is the path right?", path));
  }
  void write(const std::string& text) {
    if (path_.empty()) return;
    stream_ << text;
    stream_.close();
    if (!stream_) throw Error(ErrorCode::system, fmt::format("cannot write '{}': the disk may be full", path_));
  }

 private:
  std::string path_;
  std::ofstream stream_;
};

struct Files {
  explicit Files(const BenchOptions& asked) : json(asked.json), csv(asked.csv), plot(asked.plot) {}
  void write(const std::vector<Row>& rows) {
    json.write(json_of(rows));
    csv.write(csv_of(rows));
    plot.write(plot_of(rows));
  }
  OutFile json, csv, plot;
};

Listener listener_for(Progress& progress, bool table) {
  Listener listener;
  listener.size_done = [&progress, table](const std::vector<Row>& rows) {
    progress.clear();
    if (!table) return;
    fmt::print("{}", table_lines(rows));
    std::fflush(stdout);
  };
  listener.note = [&progress](const std::string& sentence) {
    progress.clear();
    say("bench", sentence);
  };
  listener.progress = [&progress](std::size_t done, std::size_t all, const std::string& what) {
    progress.show(done, all, what);
  };
  return listener;
}

int exit_code_of(const Results& results) {
  const bool wrong = std::any_of(results.rows.begin(), results.rows.end(),
                                 [](const Row& row) { return row.impl == kOurs && row.wrong.value_or(0) != 0; });
  return wrong || results.ours_failed ? kFailed : 0;
}

int run_table(const BenchOptions& asked) {
  const Plan plan = plan_of(asked);
  Files files(asked);
  fmt::print("# tutti bench: {} over {}, {} ranks; {} cores; {}\n", asked.verbs, plan.transport, asked.ranks,
             topology::allowed_cores().size(),
             plan.rotate_bytes != 0 ? "buffers in rotation" : "the same buffers again and again");
  fmt::print("{}", table_heading());
  std::fflush(stdout);
  Results results;
  Progress progress;
  const Listener listener = listener_for(progress, true);
  int signal = 0;
  try {
    Session session;
    run_plan(session, plan, listener, results);
  } catch (const Interrupted& interrupted) {
    signal = interrupted.signal;
  }
  progress.clear();
  for (const std::string& version : results.versions) fmt::print("# {}\n", version);
  fmt::print("{}{}", table_footer(results.rows), summary_of(results.rows));
  files.write(results.rows);
  if (signal != 0) {
    say("bench", "interrupted; what was measured until then is above");
    return 128 + signal;
  }
  return exit_code_of(results);
}

// The file that was named, or the one that `tutti tune` has left; empty where there is none.
std::string tuned_costs_of(const BenchOptions& asked) {
  if (!asked.tuned.empty()) return asked.tuned;
  const std::string file = topology::cost_file(Environment::of_process(), {rendezvous::host_name()});
  return file != topology::kBuiltIn && topology::costs_kept_in(file) ? file : "";
}

int run_figures(const BenchOptions& asked) {
  std::vector<std::string> there;
  for (const std::string& name : known_peers()) {
    const auto reason = why_missing(name, "shm", false);
    if (reason) say("bench", fmt::format("{} is left out: {}", name, *reason));
    if (!reason) there.push_back(name);
  }
  const std::string tuned = tuned_costs_of(asked);
  if (tuned.empty()) say("bench", "nothing is tuned here: `tutti tune` first, and tuned is shown beside untuned");
  const FigureSet set = figures_for(topology::allowed_cores().size(), there, tuned);
  Files files(asked);
  std::vector<std::vector<std::vector<Row>>> runs(set.plans.size());
  Results all;
  Progress progress;
  const Listener listener = listener_for(progress, false);
  try {
    Session session;
    for (int run = 0; run < asked.runs; ++run) {
      for (std::size_t i = 0; i < set.plans.size(); ++i) {
        const std::size_t before = all.rows.size();
        progress.headline(fmt::format("run {} of {}, part {} of {}", run + 1, asked.runs, i + 1, set.plans.size()));
        run_plan(session, set.plans[i], listener, all);
        runs[i].emplace_back(all.rows.begin() + static_cast<std::ptrdiff_t>(before), all.rows.end());
      }
    }
  } catch (const Interrupted& interrupted) {
    progress.clear();
    files.write(all.rows);
    say("bench", "interrupted");
    return 128 + interrupted.signal;
  }
  progress.clear();
  for (const std::string& version : all.versions) fmt::print("# {}\n", version);
  fmt::print(
      "# float32; ratio = best peer's median / ours in the same run (limit, regret: ours / theirs); median of {} "
      "run{}\n# untuned: built-in costs, what everybody runs; tuned: {}\n{}",
      asked.runs, asked.runs == 1 ? "" : "s", tuned.empty() ? "not measured" : "by " + tuned, figure_heading());
  for (const Figure& figure : set.figures) fmt::print("{}", figure_line(figure, judge(figure, runs[figure.plan])));
  files.write(all.rows);
  return exit_code_of(all);
}

void add_what(CLI::App& app, BenchOptions& asked) {
  app.add_option("verbs", asked.verbs, "A verb, several with commas between, or all; figures for the figures")
      ->type_name("VERB")
      ->required();
  app.add_option("-n,--ranks", asked.ranks, "How many ranks: 4, or 2..8, or 2,4,8; 2 if left out")->type_name("N");
  app.add_option("--transport", asked.transport, fmt::format("{}", fmt::join(kTransportWords, ", ")))
      ->type_name("NAME")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kTransportWords), std::end(kTransportWords))));
  app.add_option("--netns", asked.namespaces,
                 "Network namespaces of this machine to spread the ranks over, each a host of its own; needs root")
      ->type_name("NAMES");
  app.add_option("--map-by", asked.map_by, "With --netns: slot, host after host, or node, round them")
      ->type_name("ORDER")
      ->check(CLI::IsMember({"slot", "node"}));
  app.add_option("-b,--begin", asked.begin, "Smallest size; 8 if left out")->type_name("BYTES");
  app.add_option("-e,--end", asked.end, "Largest size; 64M if left out")->type_name("BYTES");
  app.add_option("-f,--factor", asked.factor, "From one size to the next; 2 if left out")->type_name("X");
  app.add_option("-i,--step", asked.step, "From one size to the next in bytes, instead of -f")->type_name("BYTES");
  app.add_option("-d,--type", asked.type, "Type of the elements; float32 if left out")->type_name("NAME");
  app.add_option("-o,--op", asked.op, "Operator of reductions; sum if left out")->type_name("NAME");
  app.add_option("-r,--root", asked.root, "Root of broadcast, reduce, gather and scatter")->type_name("RANK");
  app.add_option("--buffers", asked.buffers, "ordinary, symmetric (reachable by all ranks) or both")
      ->type_name("KIND")
      ->check(CLI::IsMember({"ordinary", "symmetric", "both"}));
  app.add_option(
         "--memory", asked.memory,
         "Where buffers lie: host, device for the first GPU, or devices for those of the host, dealt out among its "
         "ranks; host if left out")
      ->type_name("PLACE")
      ->check(CLI::IsMember({"host", "device", "devices"}));
  app.add_flag("--rotate", asked.rotate, "Other buffers for every call: cold caches");
  app.add_option("--rotate-bytes", asked.rotate_bytes, "Memory to rotate over, all ranks together")->type_name("BYTES");
  app.add_option("--against", asked.against, "Peers to measure in the same run, with commas between, or all")
      ->type_name("NAMES");
  app.add_option("--tuned", asked.tuned,
                 "Costs of `tutti tune`: run with them and with built-in ones, side by side; figures finds them itself")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.add_option("--schedule", asked.schedule,
                 "A schedule of your own, in the JSON of `tutti show --json`: verified, then measured beside ours")
      ->type_name("FILE");
  app.add_option("--algorithms", asked.algorithms, "all: every algorithm beside the chosen one, and the regret")
      ->type_name("all")
      ->check(CLI::IsMember({"all"}));
}

void add_how(CLI::App& app, BenchOptions& asked) {
  app.add_option("--rounds", asked.effort.rounds, "Rounds whose median counts; 11 if left out")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--iterations", asked.effort.iterations, "Calls of a round; as many as take some ms if left out")
      ->type_name("N");
  app.add_option("-w,--warm-up", asked.effort.warm_up, "Calls before each round; 1 if left out")->type_name("N");
  app.add_option("-c,--check", asked.check, "1: check the results (#wrong), 0: do not")
      ->type_name("0|1")
      ->check(CLI::Range(0, 1));
  app.add_option("--cell-seconds", asked.effort.cell_s, "Fewer rounds where a cell takes longer than this")
      ->type_name("S");
  app.add_option("--patience", asked.effort.patience_s, "Seconds after which an implementation is given up; 30")
      ->type_name("S")
      ->check(number_between(0.1, 1e6));
  app.add_flag("--no-pin", asked.no_pin, "Let the system choose the cores, for all implementations");
  app.add_option("--runs", asked.runs, "figures: how often all is run; ratios are medians of the runs")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  app.add_option("--json,-J", asked.json, "Write all rows to this file")->type_name("FILE");
  app.add_option("--csv", asked.csv, "Write all rows to this file")->type_name("FILE");
  app.add_option("--svg,--plot", asked.plot, "Draw time by size, or bandwidth by ranks, as SVG")->type_name("FILE");
}

// The figures say themselves what is measured.
void refuse_others(const CLI::App& app) {
  static const std::set<std::string> kTheirs{"verbs", "runs", "json", "csv", "svg", "tuned"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_lnames().empty() ? option->get_name() : option->get_lnames().front();
    if (option->count() == 0 || kTheirs.contains(name)) continue;
    refuse(fmt::format(
        "figures takes --runs, --tuned, --json, --csv and --svg, not --{}: it has its own sizes, ranks and peers",
        name));
  }
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("bench", "Time the verbs on this machine, beside other libraries in the same run");
  verb->footer(kBenchExamples);
  const auto asked = std::make_shared<BenchOptions>();
  add_what(*verb, *asked);
  add_how(*verb, *asked);
  verb->callback([asked, verb, &exit_code] {
    if (asked->verbs == "figures") refuse_others(*verb);
    exit_code = asked->verbs == "figures" ? run_figures(*asked) : run_table(*asked);
  });
}

}  // namespace tutti::tools
