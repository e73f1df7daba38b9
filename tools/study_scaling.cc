// tutti study scaling: a step of computing and a verb, or a program of the user's, on more and more ranks: strong (the
// whole work is fixed) and weak (every rank's is).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "choice/chooser.h"
#include "tools/bench/row.h"
#include "tools/bench/sizes.h"
#include "tools/chart.h"
#include "tools/serial_share.h"
#include "tools/studies.h"
#include "tools/study.h"
#include "tools/study_ranks.h"
#include "tools/verbs.h"
#include "tools/visits.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

struct ScalingRequest {
  StudyOptions study;
  std::string ranks = "1,2", verb = "all_reduce", bytes = "1M";
  double work_ms = 20;
  int steps = 10, per_rank = 0;
};

struct ScalePoint {
  int ranks = 1;
  bool weak = false;
};

// What a visit of a point tells; of a program, into which nobody looks, the time alone.
struct ScaleVisit {
  double seconds = 0, gamma = 0;
};

Spread spread_over(const std::vector<ScaleVisit>& visits, double ScaleVisit::*figure) {
  std::vector<double> values;
  for (const ScaleVisit& visit : visits) values.push_back(visit.*figure);
  return spread_of(std::move(values));
}

// Seconds that the program takes as so many ranks; "{}" among its arguments is all the work there is. Its output goes
// to standard error, which leaves ours to the report.
double run_program(const std::vector<std::string>& program, int ranks, int work) {
  std::vector<std::string> words{"/proc/self/exe", "run", "-n", std::to_string(ranks), "--"};
  for (std::string word : program) {
    if (const std::size_t at = word.find("{}"); at != std::string::npos) word.replace(at, 2, std::to_string(work));
    words.push_back(std::move(word));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorCode::aborted, "no process could be made for the program");
  if (child == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(ErrorCode::aborted,
                fmt::format("{} failed on {} ranks; what it wrote says why", program.front(), ranks));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void study_scaling(ScalingRequest& asked, const std::vector<std::string>& program) {
  asked.study.require_outputs();
  const std::vector<int> groups = bench::parse_ranks(asked.ranks, "--ranks");
  if (groups.front() != 1) refuse("--ranks begins with 1: scaling is told against one rank");
  const Verb* const verb = choice::find_verb(asked.verb);
  if (verb == nullptr) refuse(choice::no_verb(asked.verb));
  if (*verb == Verb::send_recv) refuse("a message is no call of all ranks: name a collective");
  if (program.empty() && asked.per_rank > 0) refuse("--per-rank is about a program: give it behind --, with {} in it");
  const bool has_place =
      std::ranges::any_of(program, [](const std::string& word) { return word.find("{}") != std::string::npos; });
  if (!program.empty() && asked.per_rank > 0 && !has_place)
    refuse("--per-rank says how much work a rank has, and {} in the program's arguments where all of it goes");
  if (has_place && asked.per_rank == 0) refuse("{} stands for all the work: say with --per-rank N how much a rank has");
  const bool has_weak = program.empty() || has_place;
  std::vector<ScalePoint> points;
  for (const bool weak : {false, true}) {
    if (weak && !has_weak) continue;
    for (const int ranks : groups) points.push_back({ranks, weak});
  }
  const std::uint64_t bytes = bench::parse_bytes(asked.bytes, "-b");
  const int most = *std::ranges::max_element(groups);
  const auto visit = [&](std::size_t i) -> ScaleVisit {
    const auto [ranks, weak] = points[i];
    if (!program.empty()) return {run_program(program, ranks, asked.per_rank * (weak ? ranks : most)), 0};
    StepsRequest steps;
    steps.verb = *verb;
    steps.ranks = ranks;
    steps.bytes = bytes;
    steps.steps = asked.steps;
    steps.work_us = asked.work_ms * 1e3 / (weak ? 1 : ranks);
    const StepsTaken taken = take_steps(steps);
    const double work = *std::ranges::max_element(taken.work_us), call = *std::ranges::min_element(taken.call_us);
    return {bench::median_of(taken.step_us) * 1e-6, call / work};
  };
  const std::vector<std::vector<ScaleVisit>> seen =
      Visits(points.size(), asked.study.rounds, asked.study.seed, "tutti study scaling").run(visit);

  StudyReport report;
  report.title = program.empty() ? fmt::format("{:g} ms of computing and {} of {}", asked.work_ms, asked.verb,
                                               bench::text_of_bytes(bytes))
                                 : fmt::format("{}", fmt::join(program, " "));
  report.head = {"scaling", "ranks", "median ms", "least", "most", "speed-up", "efficiency", "gamma"};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::vector<double> places(groups.begin(), groups.end());
  Chart chart{.title = "efficiency: " + report.title,
              .across = "ranks",
              .upwards = "efficiency",
              .places = places,
              .lines = {},
              .level = Chart::Level{1, "ideal"}};
  for (const bool weak : {false, true}) {
    if (weak && !has_weak) continue;
    std::vector<double> medians;
    Spread one_rank, most_ranks;
    chart.lines.push_back({weak ? "weak" : "strong", {}});
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].weak != weak) continue;
      const int ranks = points[i].ranks;
      const Spread spread = spread_over(seen[i], &ScaleVisit::seconds);
      medians.push_back(spread.median);
      if (ranks == 1) one_rank = spread;
      if (ranks == most) most_ranks = spread;
      const double speedup = medians.front() / spread.median * (weak ? ranks : 1), efficiency = speedup / ranks;
      // Without a look inside, what is not one rank's computing cut into parts is taken for communication.
      const double ideal = medians.front() / (weak ? 1 : ranks);
      const double gamma =
          program.empty() ? spread_over(seen[i], &ScaleVisit::gamma).median : std::max(0.0, spread.median / ideal - 1);
      report.rows.push_back({weak ? "weak" : "strong", std::to_string(ranks),
                             fmt::format("{:.2f}", spread.median * 1e3), fmt::format("{:.2f}", spread.least * 1e3),
                             fmt::format("{:.2f}", spread.most * 1e3), fmt::format("{:.2f}", speedup),
                             fmt::format("{:.1f} %", 100 * efficiency), fmt::format("{:.3f}", gamma)});
      rows.push_back({{"scaling", weak ? "weak" : "strong"},
                      {"ranks", ranks},
                      {"seconds", {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}}},
                      {"speedup", speedup},
                      {"efficiency", efficiency},
                      {"gamma", gamma}});
      chart.lines.back().values.push_back(efficiency);
    }
    if (!weak && groups.size() > 1) {
      const double share = serial_share(groups, medians);
      report.json["serial_share"] = share;
      report.sentences.push_back(words_of_serial_share(share, most_ranks.least > one_rank.most));
    }
  }
  report.sentences.push_back(program.empty() ? "gamma: the shortest call of a rank over the longest work of one"
                                             : "gamma: what is beyond one rank's time cut into parts, over that");
  report.json["study"] = "scaling";
  report.json["rows"] = std::move(rows);
  report.pictures.push_back(picture_of(chart));
  report.deliver(asked.study);
}

}  // namespace

void add_study_scaling(CLI::App& study, int& exit_code, const std::vector<std::string>& program) {
  CLI::App* verb = study.add_subcommand("scaling", "The same on more and more ranks, strong and weak");
  const auto asked = std::make_shared<ScalingRequest>();
  verb->add_option("--ranks", asked->ranks, "Of this host, between commas, from 1; 1,2 if left out")->type_name("LIST");
  verb->add_option("--verb", asked->verb, "The collective behind each step's work; all_reduce if left out")
      ->type_name("VERB");
  verb->add_option("-b,--bytes", asked->bytes, "Of a call; 1M if left out")->type_name("BYTES");
  verb->add_option("--work-ms", asked->work_ms, "Of one rank in a step; with strong scaling all ranks share it; 20")
      ->type_name("MS")
      ->check(number_between(0.001, 1e6));
  verb->add_option("--steps", asked->steps, "Of a run; 10 if left out")->type_name("N")->check(CLI::Range(1, 100'000));
  verb->add_option("--per-rank", asked->per_rank, "Of a program behind --: the work of a rank; {} is that of all")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  asked->study.add_to(*verb);
  verb->callback([asked, &program, &exit_code] {
    study_scaling(*asked, program);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
