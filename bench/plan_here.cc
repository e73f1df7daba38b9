// What `tutti plan --cluster here` takes the communication of a step to cost, and what it takes: strategies of
// tutti::train over models of three sizes, which compute nothing, as a rank of any job of one host.
//
//   tutti tune && tutti run -n 2 --no-prefix -- build/bin/plan_here
//   tutti run -n 2 --no-prefix -- build/bin/plan_here --within 1.25      # ends with 1 where one is further off
//   tutti run -n 2 --no-prefix -- build/bin/plan_here --hidden 64 --seconds 1
//   tutti run -n 2 --no-prefix -- build/bin/plan_here --json             # the same for scripts, one object
//
// A step is begun together; its communication is the time in which a call of its own was under way, of the slowest
// rank, by the strategy's report. Medians over rounds, and the quickest round, which is what to look at where others
// use the machine. "calls" is what the plan says without the steps that `tutti tune` timed: the same calls by
// themselves, blocking.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "plan/plan.h"
#include "rendezvous/host.h"
#include "tests/plan/planned_model.h"
#include "tools/step_times.h"
#include "topology/discover/cost_file.h"
#include "tutti/tutti.hpp"

namespace {

namespace plan = tutti::plan;
namespace tools = tutti::tools;
namespace topology = tutti::topology;
namespace train = tutti::train;

struct Asked {
  double within = 0;
  double seconds = 2;  // for a strategy and a model, where that is more than the fewest rounds
  std::vector<int> hidden{64, 256, 768};
  bool json = false;
};

// One strategy over one model.
struct Row {
  std::string strategy;
  int hidden = 0;
  double planned_s = 0, calls_s = 0;
  tools::StepTime measured;

  double off() const { return std::exp(std::abs(std::log(planned_s / measured.median_s))); }
};

plan::JobPlan planned(const topology::CostTable& costs, int ranks, int stage, int hidden) {
  const plan::JobWords words{{"cluster", "here"}, {"gpus", std::to_string(ranks)},
                             {"layers", "4"},     {"hidden", std::to_string(hidden)},
                             {"heads", "4"},      {"vocab", "2000"},
                             {"seq", "64"},       {"micro-batch", "1"},
                             {"overlap", "none"}, {"strategy", stage == 0 ? "dp" : "zero" + std::to_string(stage)}};
  const plan::Job job = plan::question_of(words, {}, [&] { return plan::HostCosts{costs, true, ranks, 1e12}; }).job;
  plan::CollectivePrices prices = prices_for(job);
  return plan_job(job, prices);
}

// With the buckets that were planned.
tools::StepTime measured(tutti::Communicator& comm, int stage, const plan::Job& job, double seconds) {
  const tools::IdleModel model = plan::planned_model(job.model);
  const train::StrategyOptions options{.bucket_bytes = static_cast<std::size_t>(job.bucket_bytes)};
  train::Strategy strategy = stage == 0 ? train::data_parallel(comm, model.parameters, train::Sgd{}, options)
                                        : train::zero(stage, comm, model.parameters, train::Sgd{}, options);
  tools::spread_over_cores(comm);
  return time_step(comm, strategy, model, {.fewest = 21, .most = 501, .seconds = seconds});
}

std::vector<Row> measure(tutti::Communicator& comm, const Asked& asked, const topology::CostTable& costs) {
  topology::CostTable without_steps = costs;
  for (topology::Survey& survey : without_steps.surveys) survey.steps.clear();
  std::vector<Row> rows;
  for (const int hidden : asked.hidden) {
    for (int stage = 0; stage <= 3; ++stage) {
      const plan::JobPlan made = planned(costs, comm.size(), stage, hidden);
      rows.push_back({to_text(made.job.parallel), hidden, made.communication_s,
                      planned(without_steps, comm.size(), stage, hidden).communication_s,
                      measured(comm, stage, made.job, asked.seconds)});
    }
  }
  return rows;
}

void print_rows(const std::vector<Row>& rows) {
  std::printf("%-9s %7s %12s %12s %9s %12s %9s %12s %9s\n", "strategy", "hidden", "planned us", "median us", "planned/",
              "least us", "planned/", "calls us", "/median");
  for (const Row& row : rows) {
    std::printf("%-9s %7d %12.0f %12.0f %9.2f %12.0f %9.2f %12.0f %9.2f\n", row.strategy.c_str(), row.hidden,
                row.planned_s * 1e6, row.measured.median_s * 1e6, row.planned_s / row.measured.median_s,
                row.measured.least_s * 1e6, row.planned_s / row.measured.least_s, row.calls_s * 1e6,
                row.calls_s / row.measured.median_s);
  }
}

nlohmann::ordered_json json_of(const Row& row) {
  return {{"strategy", row.strategy},
          {"hidden", row.hidden},
          {"planned_us", row.planned_s * 1e6},
          {"median_us", row.measured.median_s * 1e6},
          {"least_us", row.measured.least_s * 1e6},
          {"calls_us", row.calls_s * 1e6}};
}

// False where a step is further off than asked for.
bool tell(const std::vector<Row>& rows, const Asked& asked, int ranks, bool tuned, bool has_steps, bool speaks) {
  std::vector<double> off;
  for (const Row& row : rows) off.push_back(row.off());
  std::ranges::sort(off);
  const double typical = off[off.size() / 2], most = off.back();
  if (speaks && asked.json) {
    nlohmann::ordered_json all{{"ranks", ranks},        {"tuned", tuned},   {"steps_timed", has_steps},
                               {"off_median", typical}, {"off_most", most}, {"rows", nlohmann::ordered_json::array()}};
    for (const Row& row : rows) all["rows"].push_back(json_of(row));
    std::printf("%s\n", all.dump(2).c_str());
  } else if (speaks) {
    std::printf("%d ranks, prices by %s%s\n", ranks, tuned ? "`tutti tune`" : "built-in costs",
                has_steps ? " and the steps that it timed" : "");
    print_rows(rows);
    std::printf("off by a factor of %.2f in the median, %.2f at most\n", typical, most);
  }
  return asked.within == 0 || most <= asked.within;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Planned communication of a step against the measured one, as a rank of a job of one host");
  Asked asked;
  app.add_option("--within", asked.within, "End with 1 where a plan is off by more than this factor");
  app.add_option("--seconds", asked.seconds, "Of communication, for each strategy and model");
  app.add_option("--hidden", asked.hidden, "Sizes of models, with commas between")->delimiter(',');
  app.add_flag("--json", asked.json, "One object, for scripts");
  CLI11_PARSE(app, argc, argv);
  try {
    tutti::Communicator comm = tutti::init();
    const topology::FoundCosts costs =
        topology::find_costs(tutti::Environment::of_process(), {tutti::rendezvous::host_name()}, tutti::Log());
    const bool has_steps = survey_of_steps_for(costs.table, comm.size()).has_value();
    const std::vector<Row> rows = measure(comm, asked, costs.table);
    return tell(rows, asked, comm.size(), costs.tuned, has_steps, comm.rank() == 0) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_here: %s\n", error.what());
    return 1;
  }
}
