// A collective on a cluster, as commands simulate it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/hosts.h"
#include "base/offers.h"
#include "schedule/algorithms/table.h"
#include "schedule/readers/simulate/simulate.h"
#include "topology/topology.h"

namespace tutti::tools {

struct SimulationRequest {
  std::string verb, algorithm, topology;
  std::string segment;  // empty: as schedule::segment_bytes_to_simulate() has it
  std::optional<int> ranks;
  int root = 0;
  double reduce = 0, copy = 0, skew = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> stragglers, slow_links, failed_links;
  std::string background;
  std::vector<schedule::SimulateOptions::LateStart> late_starts = {};  // no option has them
  bool unfolded = false;
  bool history = false;  // to keep the critical path, and what ranks did

  // Adds the options that fill it.
  void add_to(CLI::App& app);
  // Those alone that say how quick ranks are, and what is wrong there.
  void add_conditions_to(CLI::App& app);
  // Whether any of those was given.
  bool has_conditions() const;
  // What they ask of the simulator.
  schedule::SimulateOptions conditions(const topology::Topology& where) const;
  // The rows it is about: of messages, because clusters share no memory. Ends the command, in words, where none is.
  std::vector<const schedule::Algorithm*> rows() const;
};

// "5:2x": a rank, and how many times as long as the others it takes. Ends the command with `form` where it is none.
schedule::SimulateOptions::Straggler slow_rank(const std::string& text, const char* option, const char* form);

// The rows it is about, but for those in which so many ranks hear from so many that it would take minutes, if it names
// none.
struct QuickRows {
  struct LeftOut {
    const schedule::Algorithm* row = nullptr;
    std::uint64_t edges = 0;  // that its messages take
  };
  std::vector<const schedule::Algorithm*> rows;
  std::vector<LeftOut> left_out;

  // For the user; empty where nothing is left out.
  std::string words() const;
  nlohmann::ordered_json json() const;
};
// Ends the command, in words, where -n or --root cannot be.
QuickRows quick_rows(const SimulationRequest& asked, const topology::Topology& topology);

struct SimulatedRow {
  const schedule::Algorithm* row = nullptr;
  schedule::Simulated simulated;
  double bytes = 0;
  int ranks = 0;
  std::uint64_t segments = 1;
  std::uint64_t segment_bytes = 0;  // of the vector, or of all chunks; 0 where nothing is moved
  double took_s = 0;                // to simulate
  double asked_bytes = 0;           // before they were rounded, so that blocks are alike and ranks fold

  // 0 where nothing takes any time: one rank has nobody to hear from.
  double algbw() const { return simulated.seconds > 0 ? bytes / simulated.seconds : 0; }
  double busbw() const { return algbw() == 0 ? 0 : algbw() * schedule::least_moved(row->verb, ranks); }
};

// What a simulation moves of so many bytes, at least one element of each chunk: of the vector, or of each chunk.
struct VectorCount {
  std::uint64_t count = 0, unit_bytes = 1;  // of one element in every chunk

  // `bytes`: of the vector, or of all chunks together.
  static VectorCount of(Verb verb, int ranks, std::uint64_t bytes, std::uint32_t element_bytes);
  double bytes() const { return static_cast<double>(count * unit_bytes); }
};

// The most memory that this process has had so far, in bytes.
std::uint64_t peak_memory();

// `bytes`: of the vector, or of all chunks together.
SimulatedRow simulate_row(const SimulationRequest& asked, const schedule::Algorithm& row,
                          const topology::Topology& topology, std::uint64_t bytes);

}  // namespace tutti::tools
