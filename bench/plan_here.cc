// What `tutti plan --cluster here` takes the communication of a step to cost, and what it takes: strategies of
// tutti::train over models of three sizes, which compute nothing, as a rank of any job of one host.
//
//   tutti tune && tutti run -n 2 --no-prefix -- build/bin/plan_here
//   tutti run -n 2 --no-prefix -- build/bin/plan_here --within 1.25      # ends with 1 where one is further off
//
// A step is begun together; its communication is the time in which a call of its own was under way, of the slowest
// rank, by the strategy's report. Medians over rounds, and the quickest round, which is what to look at where others
// use the machine.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "plan/plan.h"
#include "rendezvous/host.h"
#include "tests/plan/planned_model.h"
#include "topology/discover/cost_file.h"
#include "tutti/train/strategy.h"
#include "tutti/tutti.hpp"

namespace {

namespace plan = tutti::plan;
namespace train = tutti::train;

constexpr int kLeastRounds = 21, kMostRounds = 501, kWarmUp = 4;
constexpr double kSeconds = 3;  // for a strategy and a model, where that is more than the fewest rounds

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

plan::JobPlan planned(const tutti::topology::FoundCosts& costs, int ranks, int stage, const char* hidden) {
  const plan::JobWords words{{"cluster", "here"}, {"gpus", std::to_string(ranks)},
                             {"layers", "4"},     {"hidden", hidden},
                             {"heads", "4"},      {"vocab", "2000"},
                             {"seq", "64"},       {"micro-batch", "1"},
                             {"overlap", "none"}, {"strategy", stage == 0 ? "dp" : "zero" + std::to_string(stage)}};
  const plan::Job job = plan::question_of(words, {}, [&] {
                          return plan::HostCosts{costs.table, costs.tuned, ranks, 1e12};
                        }).job;
  plan::CollectivePrices prices = prices_for(job);
  return plan_job(job, prices);
}

struct Measured {
  double median_s = 0, least_s = 0;
};

Measured measured(tutti::Communicator& comm, int stage, const plan::ModelShape& model) {
  const plan::PlannedModel training(model);
  train::Strategy strategy = stage == 0 ? train::data_parallel(comm, training.parameters, train::Sgd{})
                                        : train::zero(stage, comm, training.parameters, train::Sgd{});
  std::vector<double> rounds;
  double whole = 0;  // alike on all ranks
  for (int round = 0; round < kWarmUp + kMostRounds && (round < kWarmUp + kLeastRounds || whole < kSeconds); ++round) {
    strategy.zero_gradients();
    comm.barrier();
    training.step(strategy, [](std::size_t) {});
    const train::Report report = strategy.report();
    std::array<double, 1> slowest{report.gamma_raw * report.times.computing_us * 1e-6};  // when a call was under way
    comm.all_reduce(slowest, tutti::ReduceOp::maximum);
    whole += slowest[0];
    if (round >= kWarmUp) rounds.push_back(slowest[0]);
  }
  return {median(rounds), *std::ranges::min_element(rounds)};
}

// False where a step is further off than asked for.
bool measure(tutti::Communicator& comm, double within) {
  const auto costs =
      tutti::topology::find_costs(tutti::Environment::of_process(), {tutti::rendezvous::host_name()}, tutti::Log());
  if (comm.rank() == 0)
    std::printf("%d ranks, prices by %s\n%-9s %7s %12s %12s %9s %12s %9s\n", comm.size(),
                costs.tuned ? "`tutti tune`" : "built-in costs", "strategy", "hidden", "planned us", "median us",
                "planned/", "least us", "planned/");
  std::vector<double> off;
  for (const char* hidden : {"64", "256", "768"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const plan::JobPlan made = planned(costs, comm.size(), stage, hidden);
      const Measured found = measured(comm, stage, made.job.model);
      const double expected = made.communication_s;
      off.push_back(std::exp(std::abs(std::log(expected / found.median_s))));
      if (comm.rank() == 0)
        std::printf("%-9s %7s %12.0f %12.0f %9.2f %12.0f %9.2f\n", to_text(made.job.parallel).c_str(), hidden,
                    expected * 1e6, found.median_s * 1e6, expected / found.median_s, found.least_s * 1e6,
                    expected / found.least_s);
    }
  }
  const double typical = median(off), most = *std::ranges::max_element(off);
  if (comm.rank() == 0) std::printf("off by a factor of %.2f in the median, %.2f at most\n", typical, most);
  return within == 0 || most <= within;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::span<char*> words(argv, static_cast<std::size_t>(argc));
    const double within = argc == 3 && words[1] == std::string_view("--within") ? std::atof(words[2]) : 0;
    tutti::Communicator comm = tutti::init();
    return measure(comm, within) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_here: %s\n", error.what());
    return 1;
  }
}
