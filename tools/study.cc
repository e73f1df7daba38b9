// tutti study: questions that take many runs, asked in a way that can be repeated.
#include "tools/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/json_text.h"
#include "tools/bench/row.h"
#include "tools/studies.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "topology/discover/see_machine.h"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

constexpr const char* kStudyExamples = R"(Examples:
  tutti study bandwidth all_reduce --ranks 2,4 -b 1K -e 16M     busbw over ranks and size, beside the model
  tutti study scaling --ranks 1,2,4 -b 1M --work-ms 20          a step of computing and all_reduce, strong and weak
  tutti study scaling --ranks 1,2,4 --per-rank 32 -- ./train --batch {}   a program of your own; {} is its whole work
  tutti study straggler -n 8 --slow 3:2x                        one slow rank: who is named, and what it costs
  tutti study straggler -n 8 --html straggler.html              nobody is slow, and nobody is to be named

All of them visit their points in an order by lot, several times, drop the first visit, and tell medians with the least
and the most that was seen. --json and --html write the same with the machine that it was.)";

std::string page_of(const StudyReport& report, const std::string& machine) {
  std::string page = page_head(report.title);
  page += fmt::format("<p>{}</p>\n", svg_escaped(machine));
  for (const std::string& sentence : report.sentences) page += fmt::format("<p>{}</p>\n", svg_escaped(sentence));
  for (const std::string& picture : report.pictures) page += picture;
  page += "<table><tr>";
  for (const std::string& name : report.head) page += fmt::format("<th>{}</th>", svg_escaped(name));
  page += "</tr>\n";
  for (const std::vector<std::string>& row : report.rows) {
    page += "<tr>";
    for (const std::string& cell : row) page += fmt::format("<td class='n'>{}</td>", svg_escaped(cell));
    page += "</tr>\n";
  }
  return page + "</table></body></html>\n";
}

// One below the other; each begins with its size.
std::string sheet_of(const std::vector<std::string>& pictures) {
  static const std::regex kSize("^<svg [^>]*width='([0-9.]+)' height='([0-9.]+)'");
  double width = 0, height = 0;
  std::string shapes;
  for (const std::string& picture : pictures) {
    std::smatch size;
    if (!std::regex_search(picture, size, kSize)) continue;
    shapes += fmt::format("<g transform='translate(0 {})'>\n{}</g>\n", height, picture);
    width = std::max(width, std::stod(size[1]));
    height += std::stod(size[2]);
  }
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}'>\n{2}</svg>\n", width,
      height, shapes);
}

void print_table(const StudyReport& report) {
  std::vector<std::size_t> widths;
  for (const std::string& name : report.head) widths.push_back(name.size());
  for (const std::vector<std::string>& row : report.rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  const auto print = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) fmt::print("  {:>{}}", row[i], widths[i]);
    fmt::print("\n");
  };
  print(report.head);
  for (const std::vector<std::string>& row : report.rows) print(row);
}

// "4 cores, ...; Xeon E5 at 2 GHz; Tutti 0.1.0"
std::string machine_line() {
  std::string processor;
  std::ifstream about("/proc/cpuinfo");
  for (std::string line; processor.empty() && std::getline(about, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) processor = "; " + line.substr(colon + 2);
  }
  return fmt::format("{}{}; Tutti {}", summary_of(topology::see_this_machine()), processor, tutti_version());
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  const auto [least, most] = std::ranges::minmax(values);
  return {bench::median_of(std::move(values)), least, most};
}

void StudyOptions::add_to(CLI::App& app) {
  app.add_option("--rounds", rounds, "Visits of every point that count; 5 if left out")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seed", seed, "Of the order, and of all that is by lot; 1 if left out")->type_name("N");
  app.add_option("--json", json, "Writes all of it there, for scripts; - prints it instead of the table")
      ->type_name("FILE");
  app.add_option("--html", html, "Writes one page with table and pictures")->type_name("FILE.html");
  app.add_option("--svg", svg, "Writes the pictures, one below the other")->type_name("FILE");
}

void StudyOptions::require_outputs() const {
  for (const std::string& path : {json, html, svg}) {
    if (path.empty() || path == "-") continue;
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    const bool is_file = ::access(path.c_str(), F_OK) == 0 && !std::filesystem::is_directory(path);
    const bool is_new = !std::filesystem::exists(path) && std::filesystem::is_directory(folder);
    if ((!is_file && !is_new) || ::access(is_file ? path.c_str() : folder.c_str(), W_OK) != 0)
      refuse(fmt::format("cannot write '{}', so nothing was measured; is the path right?", path));
  }
}

void StudyReport::deliver(const StudyOptions& options) {
  const std::string machine = machine_line();
  json["title"] = title;
  json["machine"] = machine;
  json["rounds"] = options.rounds;
  json["seed"] = options.seed;
  json["sentences"] = sentences;
  if (!options.svg.empty()) write_picture(options.svg, sheet_of(pictures));
  if (!options.html.empty()) write_picture(options.html, page_of(*this, machine));
  // Names of hosts and files may be no UTF-8.
  const std::string document = json_text(json, 2) + "\n";
  if (options.json == "-") {
    fmt::print("{}", document);
    return;
  }
  if (!options.json.empty()) write_picture(options.json, document);
  fmt::print("{}\n{}; medians of {} run{} in an order by lot\n\n", title, machine, options.rounds,
             options.rounds == 1 ? "" : "s");
  print_table(*this);
  if (!sentences.empty()) fmt::print("\n");
  for (const std::string& sentence : sentences) fmt::print("{}\n", sentence);
}

void add_study(CLI::App& app, int& exit_code, const std::vector<std::string>& program) {
  CLI::App* study = app.add_subcommand("study", "Ask what takes many runs: scaling, bandwidth, a straggler");
  study->require_subcommand(1);
  study->footer(kStudyExamples);
  add_study_bandwidth(*study, exit_code);
  add_study_scaling(*study, exit_code, program);
  add_study_straggler(*study, exit_code);
}

}  // namespace tutti::tools
