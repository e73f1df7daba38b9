// Runs a plan: starts the implementations for each number of ranks, and measures every cell with all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/measure.h"

namespace tutti::bench {

enum class Place : unsigned char { both, natural };  // natural: in place for broadcast, out of place for all others

struct Plan {
  std::vector<Verb> verbs;
  std::vector<int> ranks;
  std::string transport = "auto";
  std::vector<std::uint64_t> sizes;
  DType type = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool ordinary = true;
  bool symmetric = false;
  bool on_device = false;          // buffers on the first GPU, which all ranks share
  bool own_devices = false;        // or on the GPUs of the host, dealt out among its ranks
  std::uint64_t rotate_bytes = 0;  // of all ranks together; 0 = the same buffers again and again
  std::vector<std::string> against;
  bool all_algorithms = false;
  // A file of costs: a second group of ours chooses by them, and the first by built-in ones. Empty: one, as it finds.
  std::string tuned_costs;
  std::vector<std::string> namespaces;  // network namespaces that the ranks are spread over; empty: here
  bool round_hosts = false;             // neighbouring ranks in different ones
  std::string schedule;                 // verb=file of a schedule that a second group of ours runs; empty: none
  bool pinned = true;
  Place place = Place::both;
  Effort effort;
};

// Throws Error(invalid_argument) where a plan makes no sense.
void check_plan(const Plan& plan);

struct Listener {
  std::function<void(const std::vector<Row>& rows)> size_done;  // the rows of one size, in place and not
  std::function<void(const std::string& sentence)> note;        // what people should know, a line
  std::function<void(std::size_t done, std::size_t all, const std::string& what)> progress;
};

struct Results {
  std::vector<Row> rows;
  std::vector<std::string> versions;  // "openmpi: Open MPI v4.1.4", one each
  bool ours_failed = false;
};

// Appends to `results` as it goes, so that what was measured before an Interrupted is there.
void run_plan(Session& session, const Plan& plan, const Listener& listener, Results& results);

}  // namespace tutti::bench
