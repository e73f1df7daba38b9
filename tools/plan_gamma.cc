// tutti plan gamma: communication over computation of a data-parallel step, strong and weak scaling side by side.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "plan/gamma.h"
#include "tools/bench/sizes.h"
#include "tools/chart.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using plan::GammaRow, plan::GammaSettings;

constexpr const char* kGammaExamples = R"(Examples:
  tutti plan gamma                                     7B parameters, a global batch of 2048, 1 to 1024 workers
  tutti plan gamma --latency 5                         with 5 us for each of the 2 (K - 1) rounds
  tutti plan gamma --tokens-per-example 2048           sequences of 2048 tokens: as much to send, far more to compute
  tutti plan gamma --flops 989e12 --bandwidth 50e9     H100 that send through a NIC of 400 Gbit/s
  tutti plan gamma --workers 8,16,32 --svg gamma.svg   a picture with the line gamma = 1
  tutti plan gamma --json

How to read it: gamma is what the all-reduce takes over what computing takes. Above 1 a step waits for its gradients
longer than it computes. Raw is the whole all-reduce; exposed is what of it is left when it runs behind backward (two
thirds of the computing; --overlap), in fewer bytes (--compress) and in one of so many steps (--every).)";

struct GammaRequest {
  GammaSettings settings;
  double latency_us = 0;
  std::string workers = "1,4,16,64,256,1024";
  std::string models = "1e8,7e8,7e9,7e10";
  int model_workers = 64;
  std::string plot;
  bool json = false;
};

std::vector<double> numbers_of(const std::string& text, const char* option) {
  std::vector<double> numbers;
  for (const std::string& word : bench::parse_list(text)) {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || !(number >= 1 && number <= 1e30))
      refuse(fmt::format("{} {}: numbers from 1 between commas belong there, up to 1e30; '{}' is none", option, text,
                         word));
    if (!numbers.empty() && number <= numbers.back())
      refuse(fmt::format("{} {}: give them in ascending order", option, text));
    numbers.push_back(number);
  }
  if (numbers.empty()) refuse(fmt::format("{}: numbers from 1 between commas belong there", option));
  return numbers;
}

std::string words_of_break_even(const std::optional<double>& workers) {
  return workers ? fmt::format("{:.4g} workers", *workers) : std::string("never: gamma stays below 1");
}

void print_rows(const char* title, const GammaSettings& settings, const std::vector<double>& workers,
                GammaRow (*row_of)(const GammaSettings&, double)) {
  fmt::print("\n{}\n  {:>6}  {:>11}  {:>11}  {:>13}  {:>9}  {:>9}\n", title, "K", "local batch", "compute ms",
             "all-reduce ms", "gamma", "exposed");
  for (const double count : workers) {
    const GammaRow row = row_of(settings, count);
    fmt::print("  {:>6g}  {:>11g}  {:>11.2f}  {:>13.2f}  {:>9.3f}  {:>9.3f}{}\n", row.workers, row.local_batch,
               row.compute_s * 1e3, row.all_reduce_s * 1e3, row.gamma(), row.gamma_exposed(),
               row.comm_bound() ? "  comm-bound" : "");
  }
}

// How much a worker brings, with a batch that stays and with one that grows.
void print_side_by_side(const GammaSettings& settings, const std::vector<double>& workers) {
  const GammaRow first = strong_scaling(settings, workers.front()), alone = weak_scaling(settings, workers.front());
  const auto times_as_quick = [](const GammaRow& row, const GammaRow& than) {
    const auto pace = [](const GammaRow& of) { return of.workers * of.local_batch / (of.compute_s + of.exposed_s); };
    return pace(row) / pace(than);
  };
  fmt::print("\nstrong and weak scaling side by side: examples per second over those of the first row\n");
  fmt::print("  {:>6}  | {:>11}  {:>9}  {:>12}  | {:>11}  {:>9}  {:>12}\n", "K", "local batch", "gamma", "strong",
             "local batch", "gamma", "weak");
  for (const double count : workers) {
    const GammaRow strong = strong_scaling(settings, count), weak = weak_scaling(settings, count);
    fmt::print("  {:>6g}  | {:>11g}  {:>9.3f}  {:>12.4g}  | {:>11g}  {:>9.3f}  {:>12.4g}\n", count, strong.local_batch,
               strong.gamma(), times_as_quick(strong, first), weak.local_batch, weak.gamma(),
               times_as_quick(weak, alone));
  }
}

void print_gamma(const GammaRequest& asked, const std::vector<double>& workers, const std::vector<double>& models) {
  const GammaSettings& settings = asked.settings;
  fmt::print(
      "gamma of a data-parallel step: P = {:g}, R = {:g} FLOP/s, B = {:g} bytes/s, g = {:g} bytes,\n"
      "  {:g} token{} per example, {}\n",
      settings.parameters, settings.flops_per_s, settings.bytes_per_s, settings.bytes_per_parameter,
      settings.tokens_per_example, settings.tokens_per_example == 1 ? "" : "s",
      settings.latency_s > 0 ? fmt::format("{:g} us for each of 2 (K - 1) rounds", asked.latency_us)
                             : std::string("without latency"));
  print_rows(fmt::format("strong scaling: a global batch of {:g}", settings.global_batch).c_str(), settings, workers,
             plan::strong_scaling);
  fmt::print("  break-even: {}{}\n", words_of_break_even(break_even_strong(settings)),
             settings.latency_s > 0 ? "" : ", whatever P");
  print_rows(fmt::format("weak scaling: {:g} examples on every worker", settings.local_batch).c_str(), settings,
             workers, plan::weak_scaling);
  fmt::print("  break-even: {}\n", words_of_break_even(break_even_weak(settings)));
  print_side_by_side(settings, workers);
  fmt::print("\nmodels, K = {}, local batch {:g}\n  {:>9}  {:>11}  {:>13}  {:>9}\n", asked.model_workers,
             settings.local_batch, "P", "compute ms", "all-reduce ms", "gamma");
  for (const double parameters : models) {
    const GammaRow row = model_of(settings, asked.model_workers, parameters);
    fmt::print("  {:>9.0e}  {:>11.2f}  {:>13.2f}  {:>9.2f}\n", parameters, row.compute_s * 1e3, row.all_reduce_s * 1e3,
               row.gamma());
  }
  if (settings.latency_s == 0) return;
  const double most = workers.back();
  fmt::print(
      "\nlatency at K = {:g}: half of the all-reduce of a model of {:.3g} parameters, a tenth of one of {:.3g};\n"
      "  it matters for these and all smaller ones\n",
      most, parameters_where_latency_is(settings, most, 0.5), parameters_where_latency_is(settings, most, 0.1));
}

nlohmann::ordered_json json_of_row(const GammaRow& row) {
  return {
      {"workers", row.workers},           {"local_batch", row.local_batch},         {"parameters", row.parameters},
      {"compute_seconds", row.compute_s}, {"all_reduce_seconds", row.all_reduce_s}, {"exposed_seconds", row.exposed_s},
      {"gamma_raw", row.gamma()},         {"gamma_exposed", row.gamma_exposed()},   {"comm_bound", row.comm_bound()}};
}

void print_gamma_json(const GammaRequest& asked, const std::vector<double>& workers,
                      const std::vector<double>& models) {
  const GammaSettings& settings = asked.settings;
  const auto or_null = [](const std::optional<double>& number) {
    return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json document{{"tokens_per_example", settings.tokens_per_example},
                                  {"latency_seconds", settings.latency_s}};
  for (const double count : workers) {
    document["strong"].push_back(json_of_row(strong_scaling(settings, count)));
    document["weak"].push_back(json_of_row(weak_scaling(settings, count)));
  }
  for (const double parameters : models)
    document["models"].push_back(json_of_row(model_of(settings, asked.model_workers, parameters)));
  document["break_even_strong"] = or_null(break_even_strong(settings));
  document["break_even_weak"] = or_null(break_even_weak(settings));
  if (settings.latency_s > 0) {
    document["latency_is_half_up_to"] = parameters_where_latency_is(settings, workers.back(), 0.5);
    document["latency_is_a_tenth_up_to"] = parameters_where_latency_is(settings, workers.back(), 0.1);
  }
  fmt::print("{}\n", json_text(document, 2));
}

std::string picture_of_gamma(const GammaSettings& settings, const std::vector<double>& workers) {
  Chart chart{fmt::format("gamma: P = {:g}, {:g} token{} per example", settings.parameters, settings.tokens_per_example,
                          settings.tokens_per_example == 1 ? "" : "s"),
              "workers",
              "communication over computation",
              workers,
              {{"strong scaling, raw", {}},
               {"strong scaling, exposed", {}, true},
               {"weak scaling, raw", {}},
               {"weak scaling, exposed", {}, true}},
              Chart::Level{1, "gamma = 1"}};
  for (const double count : workers) {
    const GammaRow strong = strong_scaling(settings, count), weak = weak_scaling(settings, count);
    chart.lines[0].values.push_back(strong.gamma());
    chart.lines[1].values.push_back(strong.gamma_exposed());
    chart.lines[2].values.push_back(weak.gamma());
    chart.lines[3].values.push_back(weak.gamma_exposed());
  }
  return picture_of(chart);
}

}  // namespace

void add_plan_gamma(CLI::App& plan, int& exit_code) {
  CLI::App* gamma = plan.add_subcommand("gamma", "Communication over computation, by number of workers and model");
  const auto asked = std::make_shared<GammaRequest>();
  GammaSettings& settings = asked->settings;
  gamma->add_option("--params", settings.parameters, "P, parameters; 7e9 if left out")->type_name("P");
  gamma->add_option("--global-batch", settings.global_batch, "G, examples of strong scaling; 2048 if left out")
      ->type_name("G");
  gamma->add_option("--local-batch", settings.local_batch, "b, examples of weak scaling; 32 if left out")
      ->type_name("B");
  gamma
      ->add_option("--tokens-per-example", settings.tokens_per_example,
                   "What an example computes, in tokens; 1 if left out")
      ->type_name("N");
  gamma->add_option("--flops", settings.flops_per_s, "R, FLOP/s of a worker; 312e12 if left out")->type_name("R");
  gamma->add_option("--bandwidth", settings.bytes_per_s, "B, bytes/s of a worker; 600e9 if left out")->type_name("B");
  gamma->add_option("--grad-bytes", settings.bytes_per_parameter, "g, bytes of a gradient; 2 if left out")
      ->type_name("G");
  gamma->add_option("--latency", asked->latency_us, "alpha, microseconds of a round; 0, none, if left out")
      ->type_name("US");
  gamma->add_option("--overlap", settings.overlap, "Share of backward that may hide an all-reduce; 1 if left out")
      ->type_name("X");
  gamma->add_option("--compress", settings.compress, "Bytes over so many; 1 if left out")->type_name("X");
  gamma->add_option("--every", settings.every, "One all-reduce in so many steps; 1 if left out")->type_name("H");
  gamma->add_option("--workers", asked->workers, "K, between commas; 1,4,16,64,256,1024 if left out")
      ->type_name("LIST");
  gamma->add_option("--models", asked->models, "P of the sweep, between commas; 1e8,7e8,7e9,7e10 if left out")
      ->type_name("LIST");
  gamma->add_option("--model-workers", asked->model_workers, "K of that sweep; 64 if left out")
      ->type_name("K")
      ->check(CLI::Range(1, 1 << 24));
  gamma->add_option("--svg,--plot", asked->plot, "Writes a picture: gamma over workers, with the line gamma = 1")
      ->type_name("FILE.svg");
  gamma->add_flag("--json", asked->json, "As JSON, for scripts");
  gamma->footer(kGammaExamples);
  gamma->callback([asked, &exit_code] {
    asked->settings.latency_s = asked->latency_us * 1e-6;
    require_possible(asked->settings);
    const std::vector<double> workers = numbers_of(asked->workers, "--workers");
    const std::vector<double> models = numbers_of(asked->models, "--models");
    if (!asked->plot.empty()) write_picture(asked->plot, picture_of_gamma(asked->settings, workers));
    exit_code = 0;
    if (asked->json) return print_gamma_json(*asked, workers, models);
    print_gamma(*asked, workers, models);
  });
}

}  // namespace tutti::tools
