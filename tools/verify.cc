// tutti verify: proves the lowered programs of a collective, from the table or from a JSON file.
#include "schedule/readers/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "schedule/algorithms/table.h"
#include "schedule/readers/verify_rotation.h"
#include "schedule/verbs.h"
#include "tools/loads.h"
#include "tools/programs_file.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using schedule::Problem;

constexpr const char* kVerifyExamples = R"(Examples:
  tutti verify all_reduce --algorithm ring -n 7
  tutti verify all_reduce -a staged -n 4 --segments 3 --credits 2
  tutti verify all_reduce -a ring -n 10000               ranks that are alike: one stands for all
  tutti verify all_reduce -a ring -n 7 --hosts 3         memory inside hosts, streams across
  tutti show all_reduce -a ring -n 4 --json > ring.json
  tutti verify --file ring.json                          a file; - reads standard input
The exit code is 0 if everything was proven, 1 if there is a problem.)";

struct Verification {
  Selection selection;
  std::string file;
  std::uint32_t segments = 1;
  std::optional<std::uint64_t> count;
  bool every_rank = false;
  bool json = false;
};

// Both ways to call the verb: into another buffer, and in place where the algorithm can be called so.
struct Findings {
  schedule::VerifyOptions options;
  schedule::VerifyReport apart;
  schedule::VerifyReport in_place;
  Loads loads;
  std::optional<int> compared;  // one rank stands for all: how many have its text for sure
  bool only_apart = false;
  bool kept_aside = false;  // in place the engine keeps the input aside, so that the call is one apart
  bool ok() const { return apart.ok() && in_place.ok(); }
};

std::vector<schedule::Lowered> programs_of(const Verification& asked) {
  if (asked.file.empty()) return asked.selection.programs();
  if (!asked.selection.verb.empty()) {
    refuse("a file names its verb itself: give either a verb or --file");
  }
  return programs_of_file(asked.file);
}

// Elements: a ragged count that leaves no block of any segment empty, or as many as fill all blocks.
std::uint64_t count_for(const schedule::Program& program, std::uint64_t segments, bool ragged) {
  if (!schedule::moves_data(program.verb)) return 0;
  const bool chunks = schedule::facts_of(program.verb).cut == schedule::Cut::chunks;
  const auto blocks = static_cast<std::uint64_t>(chunks ? 1 : program.blocks);
  return segments * blocks * 48 - (ragged ? 5 : 0);
}

Findings begin(const schedule::Program& first, const Verification& asked, bool credits_given) {
  Findings findings;
  findings.options.segments = asked.segments;
  if (credits_given) findings.options.credits = asked.selection.credits;
  findings.options.count = asked.count.value_or(count_for(first, asked.segments, true));
  if (!schedule::moves_data(first.verb)) findings.options.count = 0;
  const schedule::Algorithm* row = schedule::find_algorithm(first.verb, first.algorithm);
  findings.only_apart = row != nullptr && !schedule::runs_in_place(*row) && first.ranks > 1;
  findings.kept_aside = findings.only_apart && row->in_place;
  return findings;
}

Findings examine(const std::vector<schedule::Lowered>& programs, const Verification& asked, bool credits_given) {
  const schedule::Program& first = programs.front().program;
  Findings findings = begin(first, asked, credits_given);
  findings.apart = schedule::verify(programs, findings.options);
  // Links are compared where all blocks are of one size, unless a count was asked for.
  schedule::VerifyOptions even = findings.options;
  if (!asked.count) even.count = count_for(first, asked.segments, false);
  if (findings.apart.ok() && schedule::moves_data(first.verb)) {
    const int chunks = schedule::facts_of(first.verb).cut == schedule::Cut::chunks ? first.ranks : 1;
    findings.loads = loads_of(schedule::verify(programs, even).edge_bytes,
                              static_cast<double>(even.count * even.element_bytes) * chunks);
  }
  if (findings.only_apart) return findings;
  schedule::VerifyOptions in_place = findings.options;
  in_place.in_place = true;
  findings.in_place = schedule::verify(programs, in_place);
  return findings;
}

// The same by one rank, for many that are alike; nothing where one does not decide.
std::optional<Findings> examine(const Selection::Alike& alike, const Verification& asked, bool credits_given) {
  Findings findings = begin(alike.first.program, asked, credits_given);
  findings.compared = alike.compared;
  for (const bool in_place : {false, true}) {
    if (in_place && findings.only_apart) break;
    schedule::VerifyOptions options = findings.options;
    options.in_place = in_place;
    std::optional<schedule::VerifyReport> report = schedule::verify_rotation(alike.first, options);
    if (!report) return std::nullopt;
    (in_place ? findings.in_place : findings.apart) = std::move(*report);
  }
  findings.loads = loads_of_all_alike(alike.first.program);
  return findings;
}

void print_property(const Findings& findings, Problem::Kind kind, std::string_view name, std::string_view claim) {
  const auto has = [&](const schedule::VerifyReport& report) {
    return std::any_of(report.problems.begin(), report.problems.end(),
                       [&](const Problem& p) { return p.kind == kind; });
  };
  if (!has(findings.apart) && !has(findings.in_place)) {
    // Form is looked at first; the others are only proven by runs that no problem has cut short.
    const bool proven = findings.ok() || kind == Problem::Kind::malformed;
    fmt::print("  {} {:<10} {}\n", proven ? "✓" : "?", name, proven ? claim : "not decided");
    return;
  }
  fmt::print("  ✗ {:<10} does not hold{}\n", name, has(findings.apart) ? "" : " in place (input = output)");
}

void print_problems(const schedule::VerifyReport& report, std::string_view where) {
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(report.problems.size(), kShown); ++i) {
    const Problem& problem = report.problems[i];
    fmt::print("  {}{}: {}\n", where, name_of(problem.kind), problem.message);
    for (const std::string& line : problem.story) fmt::print("      {}\n", line);
  }
  if (report.problems.size() > kShown) fmt::print("  ... and {} more\n", report.problems.size() - kShown);
}

void print_links(const Loads& loads, const schedule::Program& program) {
  if (loads.links == 0 || !schedule::moves_data(program.verb)) return;
  const auto share = [](double part) { return fmt::format("{:.4g}", part); };
  const std::string low = share(loads.least), high = share(loads.most);
  const bool one = loads.links == 1;
  fmt::print("    links      {} link{} with {} n{}, the busiest from rank {} to {}; {} n in all\n", loads.links,
             one ? "" : "s", low == high ? low : low + " to " + high, one ? "" : " each", loads.busiest_link.first,
             loads.busiest_link.second, share(loads.total));
  const double least = schedule::least_moved(program.verb, program.ranks);
  fmt::print("    bytes      {} n through the busiest rank, {}; no algorithm has less than {} = {} n{}\n",
             share(loads.rank_most), loads.busiest_rank, least_formula(program.verb), share(least),
             least > 0 ? fmt::format(": {:.3g} x that", loads.rank_most / least) : "");
  fmt::print("               n being the bytes of the vector, or of all chunks; p the ranks\n");
}

void print_alike(int compared, int ranks) {
  const bool all = compared == ranks;
  fmt::print("  {} alike      rank 0 stands for all: from its own place each does the same; {}\n", all ? "✓" : "?",
             all ? fmt::format("the programs of all {} compared", ranks)
                 : fmt::format("{} of {} programs compared", compared, ranks));
}

void print_text(const schedule::Lowered& lowered, const Findings& findings) {
  const schedule::Program& first = lowered.program;
  const std::uint32_t credits =
      findings.options.credits != 0 ? findings.options.credits : lowered.offers.inside.credits;
  fmt::print("{} by {}: {} ranks, {} elements in {} segment{}, {} credit{}\n", name_of(first.verb), first.algorithm,
             first.ranks, findings.options.count, findings.options.segments, findings.options.segments == 1 ? "" : "s",
             credits, credits == 1 ? "" : "s");
  if (findings.compared) print_alike(*findings.compared, first.ranks);
  print_property(findings, Problem::Kind::malformed, "form", "every rank, block, lane and step named exists");
  print_property(findings, Problem::Kind::wrong_result, "results", "every output holds each contribution exactly once");
  print_property(findings, Problem::Kind::unmatched, "matching", "every message sent is received, in equal sizes");
  print_property(findings, Problem::Kind::deadlock, "progress", "no deadlock with these credits, whatever the timing");
  const char* const also = findings.only_apart ? "" : ", also in place";
  const char* const but = findings.kept_aside   ? "; in place the input is kept aside first"
                          : findings.only_apart ? "; not made for in place"
                                                : "";
  print_property(findings, Problem::Kind::race, "races",
                 fmt::format("none{}: conflicting accesses are ordered{}", also, but));
  print_property(findings, Problem::Kind::early_output, "intact",
                 "no output is written before every sender has been heard");
  if (findings.ok()) {
    fmt::print("    order      {}\n", findings.apart.canonical
                                          ? "canonical: same bits as every other canonical algorithm"
                                          : "its own, the same in every run; not canonical");
    print_links(findings.loads, first);
    const bool all = findings.compared.value_or(first.ranks) == first.ranks;
    fmt::print("{}\n", all ? "verified" : "verified, if the programs that were not compared are alike: --every-rank");
    return;
  }
  fmt::print("problems\n");
  print_problems(findings.apart, "");
  if (findings.apart.ok()) print_problems(findings.in_place, "in place: ");
  fmt::print("not verified\n");
}

void print_json(const schedule::Program& first, const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json json = {{"verb", name_of(first.verb)}, {"algorithm", first.algorithm}, {"ranks", first.ranks}};
  json["count"] = findings.options.count;
  json["segments"] = findings.options.segments;
  json["verified"] = findings.ok();
  json["canonical"] = findings.apart.canonical;
  json["problems"] = Json::array();
  for (const auto* report : {&findings.apart, &findings.in_place}) {
    for (const Problem& problem : report->problems) {
      json["problems"].push_back({{"kind", name_of(problem.kind)},
                                  {"in_place", report == &findings.in_place},
                                  {"message", problem.message},
                                  {"story", problem.story}});
    }
  }
  if (findings.compared) json["ranks_compared"] = *findings.compared;
  json["share_of_busiest_link"] = findings.loads.most;
  json["share_of_busiest_rank"] = findings.loads.rank_most;
  json["least_share"] = schedule::least_moved(first.verb, first.ranks);
  json["edges"] = Json::array();
  for (const auto& [edge, bytes] : findings.apart.edge_bytes) {
    json["edges"].push_back({{"from", edge.first}, {"to", edge.second}, {"bytes", bytes}});
  }
  fmt::print("{}\n", json_text(json, 2));
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* verify = app.add_subcommand("verify", "Prove a collective: results, matching, no deadlock, no race");
  const auto asked = std::make_shared<Verification>();
  asked->selection.add_to(*verify);
  verify->add_option("--file", asked->file, "Verify the programs of this JSON file")->type_name("PATH");
  verify->add_option("--segments", asked->segments, "Pipelined pieces the vector is cut into")
      ->type_name("N")
      ->check(CLI::Range(1U, 1024U));
  constexpr double kMostElements = 1e15;  // whose bytes have numbers
  verify->add_option("--count", asked->count, "Elements of the vector; a ragged number if left out")
      ->type_name("N")
      ->check(number_between(1, kMostElements));
  verify->add_flag("--every-rank", asked->every_rank,
                   "More than 64 ranks that are alike: compare the programs of all, not of some");
  verify->add_flag("--json", asked->json, "Print the findings as JSON");
  verify->footer(kVerifyExamples);
  verify->callback([asked, verify, &exit_code] {
    const bool credits_given = verify->count("--credits") != 0;
    for (const char* option : {"--algorithm", "--ranks", "--root", "--transport", "--hosts"}) {
      if (!asked->file.empty() && verify->count(option) != 0)
        refuse(fmt::format("a file says itself what its programs are: leave {} or --file away", option));
    }
    const auto alike = asked->file.empty() ? asked->selection.alike(asked->every_rank) : std::nullopt;
    std::optional<Findings> by_one = alike ? examine(*alike, *asked, credits_given) : std::nullopt;
    const std::vector<schedule::Lowered> programs = by_one ? std::vector{alike->first} : programs_of(*asked);
    const Findings findings = by_one ? std::move(*by_one) : examine(programs, *asked, credits_given);
    if (asked->json) {
      print_json(programs.front().program, findings);
    } else {
      print_text(programs.front(), findings);
    }
    exit_code = findings.ok() ? 0 : kFailed;
  });
}

}  // namespace tutti::tools
