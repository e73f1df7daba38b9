// tutti plan compare: two jobs side by side, and why the one is quicker; tutti plan scale: one job on more and more
// devices, and where more of them stop paying.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "plan/search.h"
#include "plan/told.h"
#include "tools/bench/sizes.h"
#include "tools/chart.h"
#include "tools/pictures.h"
#include "tools/plan_request.h"
#include "tools/programs_file.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

constexpr const char* kCompareExamples = R"(Examples:
  tutti plan compare gpus=16 gpus=64 --strategy zero1 --model llama2-7b --accelerator a100-80 --seq 1 --global-batch 512
  tutti plan compare zero3 tp8.zero1 --model llama3-70b --cluster dgx-h100:8 --global-batch 256 --seq 4096
  tutti plan compare stack=tutti stack=flat-ring --model gpt3-13b --cluster dgx-a100:8 --strategy zero3
  tutti plan compare zero1 zero3 --model gpt3-13b --cluster dgx-a100:8 --svg both.svg   a picture: bars of every part

Each side is a strategy, or settings between commas: gpus=64,strategy=zero1,micro-batch=2. What is the same on both
sides are options. Exit status 3: neither fits into memory.)";

constexpr const char* kScaleExamples = R"(Examples:
  tutti plan scale --gpus 8..4096 --model llama3-8b --accelerator h100 --strategy zero3 --global-batch 4096 --seq 8192
  tutti plan scale --gpus 64..1024 --model gpt3-13b --accelerator a100-80 --global-batch 1024 --svg s.svg

Strong scaling keeps the global batch; weak scaling keeps what it is on every device of the first row. Its larger
batches want a larger learning rate, and from the critical batch on (--critical-batch) hardly save steps: the second
table. Exit status 3: no row of strong scaling fits into memory.)";

// Without a verdict, which nobody has looked for.
nlohmann::ordered_json json_of(const plan::JobPlan& plan) {
  auto document = nlohmann::ordered_json::parse(to_json(plan, {}));
  document.erase("verdict");
  return document;
}

plan::JobPlan planned(const plan::JobWords& words) {
  const plan::JobQuestion question = plan::question_of(words, text_of_file, costs_here);
  plan::CollectivePrices prices = prices_for(question.job);
  return answer(question, prices);
}

struct CompareRequest {
  plan::JobWords words;
  std::string first, second, svg;
  bool json = false;
};

// Words without a name are those of one strategy: tp8,zero1 is tp8.zero1.
plan::JobWords side_of(plan::JobWords words, const std::string& text) {
  std::string strategy;
  for (const std::string& word : bench::parse_list(text)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || word.starts_with("strategy="))
      strategy += (strategy.empty() ? "" : ".") + word.substr(equals == std::string::npos ? 0 : equals + 1);
    else
      words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (!strategy.empty()) words["strategy"] = strategy;
  return words;
}

// Whether one of them fits.
bool compare(const CompareRequest& asked) {
  const plan::JobPlan first = planned(side_of(asked.words, asked.first));
  const plan::JobPlan second = planned(side_of(asked.words, asked.second));
  const std::vector<std::string> sentences = differences(first, second, asked.first, asked.second);
  const bool one_fits = first.fits() || second.fits();
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(first, second, {asked.first, asked.second}, sentences));
  if (asked.json) {
    nlohmann::ordered_json document{{"why", sentences}};
    for (const auto& [name, plan] : {std::pair{"first", &first}, std::pair{"second", &second}})
      document[name] = json_of(*plan);
    fmt::print("{}\n", json_text(document, 2));
    return one_fits;
  }
  fmt::print("{:<16} {:>22} {:>22}\n", "", asked.first, asked.second);
  const auto row = [](const char* name, const std::string& a, const std::string& b) {
    fmt::print("{:<16} {:>22} {:>22}\n", name, a, b);
  };
  row("strategy", to_text(first.job.parallel), to_text(second.job.parallel));
  row("devices", std::to_string(first.job.devices()), std::to_string(second.job.devices()));
  row("micro-batch", std::to_string(first.job.micro_batch), std::to_string(second.job.micro_batch));
  const auto times = parts_of(first.time), others = parts_of(second.time);
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i].amount > 0 || others[i].amount > 0)
      row(times[i].name, plan::words_of_seconds(times[i].amount), plan::words_of_seconds(others[i].amount));
  row("step", plan::words_of_seconds(first.step_s()), plan::words_of_seconds(second.step_s()));
  row("tokens/s", fmt::format("{:.4g}", first.tokens_per_s()), fmt::format("{:.4g}", second.tokens_per_s()));
  row("memory", plan::words_of_bytes(first.memory.sum()), plan::words_of_bytes(second.memory.sum()));
  row("fits", first.fits() ? "true" : "false", second.fits() ? "true" : "false");
  row("gamma exposed", fmt::format("{:.3g}", first.gamma_exposed()), fmt::format("{:.3g}", second.gamma_exposed()));
  fmt::print("\n");
  for (const std::string& sentence : sentences) fmt::print("{}\n", sentence);
  return one_fits;
}

struct ScaleRequest {
  plan::JobWords words;
  std::string plot;
  bool json = false;
};

struct ScaleRow {
  int devices = 0;
  std::optional<plan::JobPlan> strong, weak;
  std::string problem;  // why there is no strong one
};

int whole_number(const std::string& text, const char* option) {
  constexpr int kMost = 1 << 24;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > kMost)
    refuse(fmt::format("{} {}: whole numbers from 1 to {} belong there", option, text, kMost));
  return number;
}

std::vector<ScaleRow> scaled(const ScaleRequest& asked) {
  const auto found = asked.words.find("gpus");
  const std::string range = found == asked.words.end() ? "8..4096" : found->second;
  const std::size_t dots = range.find("..");
  if (dots == std::string::npos) refuse(fmt::format("--gpus {}: FIRST..LAST belongs there, such as 8..4096", range));
  const int first = whole_number(range.substr(0, dots), "--gpus"),
            last = whole_number(range.substr(dots + 2), "--gpus");
  if (first > last) refuse(fmt::format("--gpus {}: the first is more than the last", range));
  const auto batch = asked.words.find("global-batch");
  if (batch == asked.words.end()) refuse("scaling keeps the batch: give --global-batch");
  std::vector<ScaleRow> rows;
  std::string problem;
  const auto try_plan = [&](int devices, long long sequences) -> std::optional<plan::JobPlan> {
    plan::JobWords words = asked.words;
    words["gpus"] = std::to_string(devices);
    words["global-batch"] = std::to_string(sequences);
    try {
      return planned(words);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      problem = error.what();
      return std::nullopt;
    }
  };
  const long long sequences = whole_number(batch->second, "--global-batch");
  for (int devices = first; devices <= last; devices *= 2) {
    ScaleRow row{devices, {}, try_plan(devices, sequences * (devices / first)), {}};
    problem.clear();
    row.strong = try_plan(devices, sequences);
    row.problem = problem;
    rows.push_back(std::move(row));
  }
  if (std::ranges::none_of(rows, [](const ScaleRow& row) { return row.strong || row.weak; }))
    refuse(rows.front().problem);
  return rows;
}

bool can_run(const ScaleRow& row) { return row.strong && row.strong->fits(); }

// The first row from which on twice the devices are less than 1.5 times the tokens; nullptr where none is.
const ScaleRow* end_of_paying(const std::vector<ScaleRow>& rows) {
  constexpr double kPays = 1.5;
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (can_run(rows[i - 1]) && can_run(rows[i]) &&
        rows[i].strong->tokens_per_s() < kPays * rows[i - 1].strong->tokens_per_s())
      return &rows[i - 1];
  return nullptr;
}

// The row that more devices pay up to: where it ends, or the last one that can run.
const ScaleRow* last_that_pays(const std::vector<ScaleRow>& rows) {
  if (const ScaleRow* end = end_of_paying(rows)) return end;
  const auto last = std::ranges::find_if(rows.rbegin(), rows.rend(), can_run);
  return last == rows.rend() ? nullptr : &*last;
}

void print_end_without_one(const std::vector<ScaleRow>& rows) {
  const ScaleRow* last = last_that_pays(rows);
  if (last == &rows.back()) return fmt::print("\nmore devices pay up to the last row\n");
  const std::string& problem = rows.back().problem;
  const std::string why = problem.empty() ? "the others do not fit into memory" : problem;
  if (last == nullptr) return fmt::print("\nno row can run with this batch: {}\n", why);
  fmt::print("\nmore devices pay up to {}, the last row that can run with this batch\n  {}\n", last->devices, why);
}

// What the larger batch of weak scaling asks for and brings, over the first row's.
struct LargerBatch {
  double learning_rate = 1, steps = 1, time = 1;
};

LargerBatch larger_batch(const plan::JobPlan& plan, const plan::JobPlan& first) {
  const double steps = plan.steps_over(first.job.global_batch);
  return {plan.learning_rate_over(first.job.global_batch), steps, steps * plan.step_s() / first.step_s()};
}

void print_catch(const std::vector<ScaleRow>& rows) {
  const auto first = std::ranges::find_if(rows, [](const ScaleRow& row) { return row.weak.has_value(); });
  if (first == rows.end()) return;
  const double critical = first->weak->job.critical_batch;
  fmt::print("\nthe catch of weak scaling: the same loss by larger batches, {}\n",
             critical > 0 ? fmt::format("critical batch {:g}", critical)
                          : std::string("if all stay far below the critical one (--critical-batch)"));
  fmt::print("{:>8}  {:>9} {:>10} {:>16} {:>10} {:>15}\n", "devices", "batch", "tokens x", "learning rate x", "steps x",
             "time to loss x");
  for (const ScaleRow& row : rows) {
    if (!row.weak) continue;
    const LargerBatch larger = larger_batch(*row.weak, *first->weak);
    fmt::print("{:>8}  {:>9} {:>10.2f} {:>16.4g} {:>10.4g} {:>15.4g}\n", row.devices, row.weak->job.global_batch,
               row.weak->tokens_factor(), larger.learning_rate, larger.steps, larger.time);
  }
}

void print_scale(const std::vector<ScaleRow>& rows) {
  fmt::print("{:>8}  {:<22} {:>11} {:>10} {:>7} {:>7} {:>9}  {:>14} {:>7} {:>7}\n", "devices", "strategy", "step",
             "tokens/s", "MFU", "fits", "exposed", "weak tokens/s", "MFU", "fits");
  for (const ScaleRow& row : rows) {
    if (row.strong)
      fmt::print("{:>8}  {:<22} {:>11} {:>10.4g} {:>5.1f} % {:>7} {:>9.3g}", row.devices,
                 to_text(row.strong->job.parallel), plan::words_of_seconds(row.strong->step_s()),
                 row.strong->tokens_per_s(), 100 * row.strong->mfu(), row.strong->fits() ? "true" : "false",
                 row.strong->gamma_exposed());
    else
      fmt::print("{:>8}  {:<22} {:>11} {:>10} {:>7} {:>7} {:>9}", row.devices, "not possible", "", "", "", "", "");
    if (row.weak)
      fmt::print("  {:>14.4g} {:>5.1f} % {:>7}", row.weak->tokens_per_s(), 100 * row.weak->mfu(),
                 row.weak->fits() ? "true" : "false");
    fmt::print("\n");
  }
  print_catch(rows);
  const ScaleRow* end = end_of_paying(rows);
  if (end == nullptr) return print_end_without_one(rows);
  fmt::print("\nbeyond {} devices twice as many are less than 1.5 times the tokens per second\n", end->devices);
  const auto next = std::ranges::find(rows, end->devices * 2, &ScaleRow::devices);
  for (const std::string& sentence : differences(*end->strong, *next->strong)) fmt::print("  {}\n", sentence);
}

void print_scale_json(const std::vector<ScaleRow>& rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  const auto first = std::ranges::find_if(rows, [](const ScaleRow& row) { return row.weak.has_value(); });
  for (const ScaleRow& row : rows) {
    nlohmann::ordered_json object{{"gpus", row.devices}};
    if (!row.problem.empty()) object["not_possible"] = row.problem;
    if (row.strong) object["strong"] = json_of(*row.strong);
    if (row.weak) {
      object["weak"] = json_of(*row.weak);
      const LargerBatch larger = larger_batch(*row.weak, *first->weak);
      object["weak"]["learning_rate_factor"] = larger.learning_rate;
      object["weak"]["steps_to_loss_factor"] = larger.steps;
      object["weak"]["time_to_loss_factor"] = larger.time;
    }
    array.push_back(std::move(object));
  }
  const ScaleRow* end = last_that_pays(rows);
  nlohmann::ordered_json document{{"rows", std::move(array)}};
  document["pays_up_to"] = end == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(end->devices);
  fmt::print("{}\n", json_text(document, 2));
}

std::string picture_of_scale(const std::vector<ScaleRow>& rows) {
  Chart chart{"tokens per second over devices",
              "devices",
              "tokens per second",
              {},
              {{"strong scaling", {}}, {"weak scaling", {}}, {"as many times as devices", {}, true}}};
  double per_device = 0;
  for (const ScaleRow& row : rows) {
    chart.places.push_back(row.devices);
    chart.lines[0].values.push_back(row.strong ? row.strong->tokens_per_s() : 0);
    chart.lines[1].values.push_back(row.weak ? row.weak->tokens_per_s() : 0);
    if (per_device == 0 && row.strong) per_device = row.strong->tokens_per_s() / row.devices;
    chart.lines[2].values.push_back(per_device * row.devices);
  }
  return picture_of(chart);
}

}  // namespace

void add_plan_compare(CLI::App& plan, int& exit_code) {
  CLI::App* verb = plan.add_subcommand("compare", "Two jobs side by side, and why one is quicker");
  const auto asked = std::make_shared<CompareRequest>();
  verb->add_option("A", asked->first, "A strategy, or settings: gpus=16,strategy=zero1");
  verb->add_option("B", asked->second, "Another one");
  add_plan_settings(*verb, asked->words);
  verb->add_option("--svg,--plot", asked->svg, "Writes a picture: what a step and memory are made of, side by side")
      ->type_name("FILE.svg");
  verb->add_flag("--json", asked->json, "As JSON, for scripts");
  verb->footer(kCompareExamples);
  verb->callback([asked, &exit_code] {
    if (asked->first.empty() || asked->second.empty())
      refuse("compare takes two sides: strategies, as zero1 tp8, or settings, as gpus=16 gpus=64");
    exit_code = compare(*asked) ? 0 : kDoesNotFit;
  });
}

void add_plan_scale(CLI::App& plan, int& exit_code) {
  CLI::App* verb = plan.add_subcommand("scale", "One job on more and more devices, and where more stop paying");
  const auto asked = std::make_shared<ScaleRequest>();
  add_plan_settings(*verb, asked->words);
  verb->add_option("--svg,--plot", asked->plot, "Writes a picture: tokens per second over devices")
      ->type_name("FILE.svg");
  verb->add_flag("--json", asked->json, "As JSON, for scripts");
  verb->footer(kScaleExamples);
  verb->callback([asked, &exit_code] {
    const std::vector<ScaleRow> rows = scaled(*asked);
    exit_code = std::ranges::any_of(rows, can_run) ? 0 : kDoesNotFit;
    if (!asked->plot.empty()) write_picture(asked->plot, picture_of_scale(rows));
    if (asked->json) return print_scale_json(rows);
    print_scale(rows);
  });
}

}  // namespace tutti::tools
