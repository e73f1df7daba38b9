// tutti plan: what a training job says, costs and is bound by, before it is launched.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "base/environment.h"
#include "base/log.h"
#include "plan/search.h"
#include "plan/told.h"
#include "rendezvous/host.h"
#include "strategy/timeline.h"
#include "tools/machine_memory.h"
#include "tools/plan_html.h"
#include "tools/plan_request.h"
#include "tools/programs_file.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "topology/discover/cost_file.h"

namespace tutti::tools {
namespace {

constexpr const char* kPlanExamples = R"(Examples:
  tutti plan gamma                                             the ratio alone: does this job wait for its gradients?
  tutti plan --model llama3-8b --cluster dgx-h100:8 --strategy zero3 --global-batch 1024 --seq 8192
  tutti plan --model gpt3-175b --accelerator a100-80 --gpus 1024 --strategy tp8.pp8.zero1 --global-batch 1536
  tutti plan --model llama3-70b --cluster dgx-h100:16 --strategy auto --global-batch 1024 --seq 8192
  tutti plan compare gpus=16 gpus=64 --strategy zero1 --model llama2-7b --accelerator a100-80 --seq 1 --global-batch 512
  tutti plan scale --gpus 8..4096 --model llama3-8b --accelerator h100 --strategy zero3 --global-batch 4096 --seq 8192
  tutti plan --model config.json --cluster mine.topology --accelerator h100 --json

Strategies: degrees between dots, as tp8.sp.pp4.v2.dp16.zero1; dp is what is left of the devices where it is left out.
  dp replicas, zero1 zero2 zero3 cut their states, tp cuts matrices and sp the rest of a layer along tp, cp cuts
  sequences, pp cuts layers into stages and v (interleave) stages into chunks, ep spreads experts over replicas,
  diloco100 lets replicas exchange once in 100 steps, ps2 has two parameter servers, actors8 as many actors besides.
  auto tries the synchronous ones that agree with what is said besides (--tp 4 --recompute full), and prints the best
  ten. --cluster here prices calls of this host.
Exit status 3: the job does not fit into memory; the plan is printed all the same.)";

constexpr std::size_t kBest = 10;

struct PlanRequest {
  plan::JobWords words;
  std::string timeline, html;
  bool json = false, list = false;
};

void print_names() {
  fmt::print("models\n");
  for (const plan::ModelPreset& preset : plan::model_presets())
    fmt::print("  {:<14} {:>9.4g} parameters  {}\n", preset.shape.name, parameters_of(preset.shape).all, preset.source);
  fmt::print("accelerators\n");
  for (const plan::Accelerator& of : plan::accelerators())
    fmt::print("  {:<14} {:>5.4g} TFLOP/s, {}, {}/s  {}\n", of.name, of.flops_per_s / 1e12,
               plan::words_of_bytes(of.memory_bytes), plan::words_of_bytes(of.memory_bytes_per_s), of.source);
  fmt::print("stacks\n");
  for (const plan::Stack& stack : plan::stacks()) fmt::print("  {:<14} {}\n", stack.name, stack.meaning);
  fmt::print("clusters: tutti topo --list\n");
}

void print_found(const plan::Found& found) {
  if (found.fitting == 0)
    fmt::print("none of {} strategies that were tried fits into memory; the one that needs least:\n\n", found.tried);
  else
    fmt::print("{} strategies fit of {} that were tried; the best:\n\n", found.fitting, found.tried);
  fmt::print("  {:<34} {:>6}  {:>10}  {:>11}  {:>9}  {:>7}  {:>10}\n", "strategy", "micro", "recompute", "step",
             "tokens/s", "MFU", "memory");
  for (const plan::JobPlan& plan : found.best)
    fmt::print("  {:<34} {:>6}  {:>10}  {:>11}  {:>9.4g}  {:>5.1f} %  {:>10}\n", to_text(plan.job.parallel),
               plan.job.micro_batch, name_of(plan.job.recompute), plan::words_of_seconds(plan.step_s()),
               plan.tokens_per_s(), 100 * plan.mfu(), plan::words_of_bytes(plan.memory.sum()));
  if (found.best.size() > 1) {
    fmt::print("\nwhy the first beats the second\n");
    for (const std::string& sentence : differences(found.best[1], found.best[0])) fmt::print("  {}\n", sentence);
  }
  fmt::print("\n");
}

int run_plan(const PlanRequest& asked) {
  const plan::JobQuestion question = plan::question_of(asked.words, text_of_file, costs_here);
  plan::CollectivePrices prices = prices_for(question.job);
  plan::Found found;
  if (question.any_strategy) found = find_strategies(question.job, prices, kBest, question.fixed);
  const plan::JobPlan made = found.best.empty() ? answer(question, prices) : found.best.front();
  const plan::JobVerdict verdict = verdict_of(made, prices);
  if (!asked.timeline.empty()) {
    if (made.timeline.empty())
      refuse("--svg: this strategy has no buckets of gradients; they come with dp, zero1 and zero2");
    write_picture(asked.timeline, strategy::svg_of(made.timeline, made.backward_us));
  }
  if (!asked.html.empty()) write_picture(asked.html, page_of(made, verdict));
  if (asked.json) {
    fmt::print("{}\n", found.best.empty() ? to_json(made, verdict) : to_json(found, verdict));
  } else {
    if (!found.best.empty()) print_found(found);
    fmt::print("{}", to_text(made, verdict));
  }
  return made.fits() ? 0 : kDoesNotFit;
}

}  // namespace

plan::HostCosts costs_here() {
  const topology::FoundCosts found =
      topology::find_costs(Environment::of_process(), {rendezvous::host_name()}, Log(Log::Level::warn, -1));
  return {found.table, found.tuned, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
          static_cast<double>(machine_memory_bytes())};
}

void add_plan_settings(CLI::App& app, plan::JobWords& words) {
  const struct {
    const char *name, *value, *meaning;
  } settings[] = {
#define X(name, value, meaning) {name, value, meaning},
      TUTTI_PLAN_SETTINGS(X)
#undef X
  };
  for (const auto& setting : settings) {
    const std::string name = setting.name;
    CLI::Option* option = app.add_option_function<std::string>(
        "--" + name, [&words, name](const std::string& value) { words[name] = value; }, setting.meaning);
    option->type_name(setting.value)->take_last();  // what a verdict advises can be put behind what there is
    // What is or is not may stand alone: it is.
    if (setting.value == std::string_view("0|1")) option->expected(0, 1)->default_str("1");
  }
}

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* plan =
      app.add_subcommand("plan", "Know before you launch: what a training job says, costs and is bound by");
  const auto asked = std::make_shared<PlanRequest>();
  add_plan_settings(*plan, asked->words);
  plan->add_option("--svg,--timeline", asked->timeline, "Writes a picture: buckets of gradients over backward")
      ->type_name("FILE.svg");
  plan->add_option("--html", asked->html, "Writes a page: bars of a step and of memory, the timeline, the sentence")
      ->type_name("FILE.html");
  plan->add_flag("--json", asked->json, "As JSON, for scripts");
  plan->add_flag("--list", asked->list, "Models, accelerators and stacks by name");
  plan->footer(kPlanExamples);
  add_plan_gamma(*plan, exit_code);
  add_plan_compare(*plan, exit_code);
  add_plan_scale(*plan, exit_code);
  plan->parse_complete_callback([asked, plan] {
    if (plan->get_subcommands().empty()) return;
    if (asked->words.empty() && !asked->json && !asked->list && asked->html.empty() && asked->timeline.empty()) return;
    const std::string verb = plan->get_subcommands().front()->get_name();
    refuse(fmt::format("options of {} stand behind its name: tutti plan {} --...", verb, verb));
  });
  plan->callback([asked, plan, &exit_code] {
    if (!plan->get_subcommands().empty()) return;
    exit_code = 0;
    if (asked->list) return print_names();
    exit_code = run_plan(*asked);
  });
}

}  // namespace tutti::tools
