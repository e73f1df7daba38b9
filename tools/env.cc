// tutti env: the table of environment variables with the values that hold here, and names that look like a slip.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/json_text.h"
#include "tools/launch/job.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

constexpr const char* kEnvExamples = R"(Examples:
  tutti env                            the variables, what holds here, what they mean
  tutti env --json | jq .variables     for programs
  tutti run -n 2 -- tutti env          as a rank sees them)";

struct EnvOptions {
  bool json = false;
  bool markdown = false;
};

struct Row {
  Variable variable;
  bool set = false;
  std::string value;    // or what holds where it is not set
  std::string invalid;  // why the library would refuse the value; empty where it would not
};

struct Unknown {
  std::string name;
  std::string nearest;  // empty where nothing is near
};

// How many letters have to be put in, taken out or replaced to get from one to the other.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_to(std::string_view name) {
  std::string_view best;
  std::size_t best_distance = 4;  // further away it is no slip any more
  for (const Variable& variable : variables()) {
    const std::size_t apart = distance(name, variable.name);
    if (apart >= best_distance) continue;
    best = variable.name;
    best_distance = apart;
  }
  return std::string(best);
}

std::string complaint_about(const Environment& environment, std::string_view name) {
  try {
    static_cast<void>(environment.word(name));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::vector<Row> rows_of(const Environment& environment) {
  std::vector<Row> rows;
  for (const Variable& variable : variables()) {
    const auto value = environment.get(variable.name);
    Row row{variable, value.has_value(), value.value_or(std::string(variable.unset)),
            complaint_about(environment, variable.name)};
    if (row.set && variable.secret) row.value = "set (hidden)";
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Unknown> unknown_ones() {
  std::vector<Unknown> unknown;
  for (const auto& [name, value] : variables_of_process()) {
    const auto is_it = [&name = name](const Variable& variable) { return variable.name == name; };
    if (!name.starts_with("TUTTI_") || std::any_of(variables().begin(), variables().end(), is_it)) continue;
    unknown.push_back({name, nearest_to(name)});
  }
  return unknown;
}

void print_text(const std::vector<Row>& rows, const std::vector<Unknown>& unknown) {
  std::size_t names = 0;
  std::size_t values = 0;
  for (const Row& row : rows) {
    names = std::max(names, row.variable.name.size());
    values = std::max(values, std::min<std::size_t>(row.value.size() + 2, 40));
  }
  fmt::print("  {:<{}}  {:<{}}  {}\n", "variable", names, "here", values, "meaning");
  for (const Row& row : rows) {
    const std::string shown = row.set ? row.value : "(" + row.value + ")";
    const char mark = !row.invalid.empty() ? '!' : row.set ? '*' : ' ';
    fmt::print("{} {:<{}}  {:<{}}  {}\n", mark, row.variable.name, names, shown, values, row.variable.meaning);
  }
  fmt::print("\n* is set here; in parentheses is what holds because it is not.\n");
  for (const Row& row : rows) {
    if (!row.invalid.empty()) fmt::print("! invalid: {}\n", row.invalid);
  }
  for (const Unknown& each : unknown) {
    fmt::print("unknown: {} is set, but nothing reads it{}\n", each.name,
               each.nearest.empty() ? "" : "; do you mean " + each.nearest + "?");
  }
}

void print_json(const std::vector<Row>& rows, const std::vector<Unknown>& unknown) {
  using nlohmann::json;
  json found{{"variables", json::array()}, {"unknown", json::array()}};
  for (const Row& row : rows) {
    json entry{{"name", row.variable.name},
               {"meaning", row.variable.meaning},
               {"unset", row.variable.unset},
               {"set", row.set},
               {"secret", row.variable.secret}};
    if (row.set && !row.variable.secret) entry["value"] = row.value;
    if (!row.invalid.empty()) entry["invalid"] = row.invalid;
    found["variables"].push_back(std::move(entry));
  }
  for (const Unknown& each : unknown) {
    json entry{{"name", each.name}};
    if (!each.nearest.empty()) entry["nearest"] = each.nearest;
    found["unknown"].push_back(std::move(entry));
  }
  // A value may hold any bytes.
  fmt::print("{}\n", json_text(found, 2));
}

std::string cell(std::string_view text) {
  std::string escaped;
  for (const char character : text) escaped += character == '|' ? std::string("\\|") : std::string(1, character);
  return escaped;
}

// Says nothing of this process, so that it can be kept in a file.
void print_markdown() {
  fmt::print(
      "# Environment variables\n\n"
      "Made by `tutti env --markdown` from the one table in `src/base/environment.h`; `tutti env` shows the values "
      "that "
      "hold\nwhere you are, and names that look like a slip. What a launcher sets comes last.\n\n"
      "| variable | where it is not set | meaning |\n|---|---|---|\n");
  for (const Variable& variable : variables()) {
    fmt::print("| `{}` | {} | {}{} |\n", variable.name, cell(variable.unset), cell(variable.meaning),
               variable.secret ? "; never shown" : "");
  }
}

void show(const EnvOptions& asked) {
  if (asked.markdown) return print_markdown();
  const std::vector<Row> rows = rows_of(Environment::of_process());
  asked.json ? print_json(rows, unknown_ones()) : print_text(rows, unknown_ones());
}

}  // namespace

void add_env(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("env", "Show the environment variables, their values here and what they mean");
  verb->footer(kEnvExamples);
  const auto asked = std::make_shared<EnvOptions>();
  CLI::Option* json = verb->add_flag("--json", asked->json, "As JSON");
  verb->add_flag("--markdown", asked->markdown, "The table without values, as docs/environment.md holds it")
      ->excludes(json);
  verb->callback([asked, &exit_code] {
    show(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
