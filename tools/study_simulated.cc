#include "tools/study_simulated.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "schedule/algorithms/table.h"
#include "tools/plan_request.h"
#include "tools/simulation.h"
#include "topology/measured.h"
#include "topology/rates.h"

namespace tutti::tools {
namespace {

topology::Rates rates_here(int ranks) {
  const plan::HostCosts here = costs_here();
  const std::optional<topology::Survey> survey = topology::survey_for(here.table, true, ranks);
  return survey ? survey->rates : here.table.memory;
}

// Ranks that meet in the memory of one host: a message is copied into it and out of it.
topology::Topology host_of(const topology::Rates& rates, int ranks) {
  const double turn_s = ranks > rates.cores ? rates.turn : 0;
  const topology::LinkSpeed way{1 / (2 * rates.copy + rates.push + rates.peer),
                                rates.message + 2 * rates.line + turn_s};
  topology::MeasuredPairs pairs(ranks, Hosts());  // one host
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) pairs.at(from, to) = way;
  return topology::topology_of(pairs, "host");
}

}  // namespace

double simulated_step_us(const StepsRequest& asked) {
  const topology::Rates rates = rates_here(asked.ranks);
  SimulationRequest request;
  request.verb = name_of(asked.verb);
  request.algorithm = asked.algorithm;
  request.ranks = asked.ranks;
  request.reduce = rates.reduce > 0 ? 1e-9 / rates.reduce : 0;  // GB/s
  request.copy = rates.copy > 0 ? 1e-9 / rates.copy : 0;
  for (int rank = 0; rank < asked.ranks; ++rank) {
    const double slower = asked.slower.empty() ? 1 : asked.slower[static_cast<std::size_t>(rank)];
    request.late_starts.push_back({rank, asked.work_us * slower * 1e-6});
  }
  const SimulatedRow row = simulate_row(request, *schedule::find_algorithm(asked.verb, asked.algorithm),
                                        host_of(rates, asked.ranks), asked.bytes);
  return 1e6 * *std::ranges::max_element(row.simulated.ends);
}

}  // namespace tutti::tools
