// A collective on a cluster, as commands simulate it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schedule/algorithms/table.h"
#include "schedule/readers/simulate/simulate.h"
#include "topology/topology.h"

namespace tutti::tools {

struct SimulationRequest {
  std::string verb, algorithm, topology, segment = "4M";
  std::optional<int> ranks;
  int root = 0;
  double reduce = 0, copy = 0, skew = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> stragglers;

  // Adds the options that fill it.
  void add_to(CLI::App& app);
  // The rows it is about: of messages, because clusters share no memory. Ends the command, in words, where none is.
  std::vector<const schedule::Algorithm*> rows() const;
};

struct SimulatedRow {
  const schedule::Algorithm* row = nullptr;
  schedule::Simulated simulated;
  double bytes = 0;
  int ranks = 0;
  double took_s = 0;  // to simulate

  double algbw() const { return bytes / simulated.seconds; }
  double busbw() const { return algbw() * schedule::least_moved(row->verb, ranks); }
};

// `bytes`: of the vector, or of all chunks together.
SimulatedRow simulate_row(const SimulationRequest& asked, const schedule::Algorithm& row,
                          const topology::Topology& topology, std::uint64_t bytes);

}  // namespace tutti::tools
