// tutti verify: proves the lowered programs of a collective, from the table or from a JSON file.
#include "schedule/readers/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "schedule/algorithms/table.h"
#include "schedule/verbs.h"
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
  tutti verify all_reduce -a ring -n 7 --hosts 3         memory inside hosts, streams across
  tutti show all_reduce -a ring -n 4 --json > ring.json
  tutti verify --file ring.json                          a file; - reads standard input
The exit code is 0 if everything was proven, 1 if there is a problem.)";

struct Verification {
  Selection selection;
  std::string file;
  std::uint32_t segments = 1;
  std::uint64_t count = 0;
  bool json = false;
};

// Both ways to call the verb: into another buffer, and in place where the algorithm can be called so.
struct Findings {
  schedule::VerifyOptions options;
  schedule::VerifyReport apart;
  schedule::VerifyReport in_place;
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

Findings examine(const std::vector<schedule::Lowered>& programs, const Verification& asked, bool credits_given) {
  Findings findings;
  findings.options.segments = asked.segments;
  if (credits_given) findings.options.credits = asked.selection.credits;
  // A ragged count that leaves no block of any segment empty, unless one is asked for.
  const schedule::Program& first = programs.front().program;
  const bool chunks = schedule::facts_of(first.verb).cut == schedule::Cut::chunks;
  const auto blocks = static_cast<std::uint64_t>(chunks ? 1 : first.blocks);
  findings.options.count = asked.count != 0 ? asked.count : asked.segments * blocks * 48 - 5;
  if (!schedule::moves_data(first.verb)) findings.options.count = 0;
  findings.apart = schedule::verify(programs, findings.options);
  const schedule::Algorithm* row = schedule::find_algorithm(first.verb, first.algorithm);
  findings.only_apart = row != nullptr && !schedule::runs_in_place(*row) && first.ranks > 1;
  findings.kept_aside = findings.only_apart && row->in_place;
  if (findings.only_apart) return findings;
  schedule::VerifyOptions in_place = findings.options;
  in_place.in_place = true;
  findings.in_place = schedule::verify(programs, in_place);
  return findings;
}

const char* name_of_kind(Problem::Kind kind) {
  switch (kind) {
    case Problem::Kind::malformed: return "malformed";
    case Problem::Kind::wrong_result: return "wrong result";
    case Problem::Kind::unmatched: return "unmatched";
    case Problem::Kind::deadlock: return "deadlock";
    case Problem::Kind::race: return "race";
    case Problem::Kind::early_output: return "early output";
  }
  return "";
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
    fmt::print("  {}{}: {}\n", where, name_of_kind(problem.kind), problem.message);
    for (const std::string& line : problem.story) fmt::print("      {}\n", line);
  }
  if (report.problems.size() > kShown) fmt::print("  ... and {} more\n", report.problems.size() - kShown);
}

// `chunks` of the count each are n bytes.
void print_edges(const Findings& findings, int chunks) {
  const auto& edges = findings.apart.edge_bytes;
  if (edges.empty()) return;
  const auto by_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(edges.begin(), edges.end(), by_bytes);
  std::uint64_t total = 0;
  for (const auto& [edge, bytes] : edges) total += bytes;
  const auto vector_bytes = static_cast<double>(findings.options.count * findings.options.element_bytes) * chunks;
  const auto share = [&](std::uint64_t bytes) {
    return fmt::format("{:.3g}", static_cast<double>(bytes) / vector_bytes);
  };
  const std::string low = share(least->second);
  const std::string high = share(most->second);
  fmt::print("    bytes      {} edge{} with {} n{}; {} n in all, n being the vector or all chunks\n", edges.size(),
             edges.size() == 1 ? "" : "s", low == high ? low : low + " to " + high, edges.size() == 1 ? "" : " each",
             share(total));
}

void print_text(const std::vector<schedule::Lowered>& programs, const Findings& findings) {
  const schedule::Program& first = programs.front().program;
  const std::uint32_t credits =
      findings.options.credits != 0 ? findings.options.credits : programs.front().offers.inside.credits;
  fmt::print("{} by {}: {} ranks, {} elements in {} segment{}, {} credit{}\n", name_of(first.verb), first.algorithm,
             first.ranks, findings.options.count, findings.options.segments, findings.options.segments == 1 ? "" : "s",
             credits, credits == 1 ? "" : "s");
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
    print_edges(findings, schedule::facts_of(first.verb).cut == schedule::Cut::chunks ? first.ranks : 1);
    fmt::print("verified\n");
    return;
  }
  fmt::print("problems\n");
  print_problems(findings.apart, "");
  if (findings.apart.ok()) print_problems(findings.in_place, "in place: ");
  fmt::print("not verified\n");
}

void print_json(const std::vector<schedule::Lowered>& programs, const Findings& findings) {
  using Json = nlohmann::ordered_json;
  const schedule::Program& first = programs.front().program;
  Json json = {{"verb", name_of(first.verb)}, {"algorithm", first.algorithm}, {"ranks", first.ranks}};
  json["count"] = findings.options.count;
  json["segments"] = findings.options.segments;
  json["verified"] = findings.ok();
  json["canonical"] = findings.apart.canonical;
  json["problems"] = Json::array();
  for (const auto* report : {&findings.apart, &findings.in_place}) {
    for (const Problem& problem : report->problems) {
      json["problems"].push_back({{"kind", name_of_kind(problem.kind)},
                                  {"in_place", report == &findings.in_place},
                                  {"message", problem.message},
                                  {"story", problem.story}});
    }
  }
  json["edges"] = Json::array();
  for (const auto& [edge, bytes] : findings.apart.edge_bytes) {
    json["edges"].push_back({{"from", edge.first}, {"to", edge.second}, {"bytes", bytes}});
  }
  fmt::print("{}\n", json.dump(2));
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
  verify->add_option("--count", asked->count, "Elements of the vector; a ragged number if left out")->type_name("N");
  verify->add_flag("--json", asked->json, "Print the findings as JSON");
  verify->footer(kVerifyExamples);
  verify->callback([asked, verify, &exit_code] {
    const std::vector<schedule::Lowered> programs = programs_of(*asked);
    const Findings findings = examine(programs, *asked, verify->count("--credits") != 0);
    if (asked->json) {
      print_json(programs, findings);
    } else {
      print_text(programs, findings);
    }
    exit_code = findings.ok() ? 0 : kFailed;
  });
}

}  // namespace tutti::tools
