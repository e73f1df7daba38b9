// What studies have the ranks of this host do: calls that are timed, and steps of work with a call behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.h"

namespace tutti::tools {

struct TimedCall {
  double us = 0;            // of the slowest rank
  double predicted_us = 0;  // 0 where the library does not say
};
// A verb of so many bytes, as `tutti bench` counts them, among processes of this host. Throws Error where one fails.
TimedCall time_call(Verb verb, int ranks, std::uint64_t bytes);

// Steps of a job: every rank works, then all call.
struct StepsRequest {
  Verb verb = Verb::all_reduce;
  std::string algorithm = {};  // empty: chosen by the library
  int ranks = 2;
  std::uint64_t bytes = 1 << 20;
  int steps = 20;
  double work_us = 0;            // of every rank in a step
  std::vector<double> slower{};  // by rank, how many times as long its work takes; empty: as long
  bool sleeps = false;           // instead of computing, so that nobody needs a core to work
};
struct StepsTaken {
  std::vector<double> step_us;                // of the slowest rank, by step
  std::vector<double> work_us, call_us;       // medians over steps, by rank
  std::vector<std::vector<double>> arrivals;  // by step, by rank: when it called, from the first of them on
  double predicted_us = 0;                    // of the call
};
StepsTaken take_steps(const StepsRequest& asked);

}  // namespace tutti::tools
