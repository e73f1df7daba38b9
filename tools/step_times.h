// How long strategies of tutti::train communicate in a step, by their reports: what `tutti tune` keeps, and what
// bench/plan_here holds plans against.
#pragma once

#include <functional>
#include <vector>

#include "tools/idle_model.h"
#include "topology/measured_steps.h"
#include "tutti/communicator.h"
#include "tutti/train/strategy.h"

namespace tutti::tools {

// Rounds end behind so many seconds of communication, but not before there are the fewest.
struct StepRounds {
  int fewest = 7, most = 101;
  double seconds = 0.06;
};

struct StepTime {
  double median_s = 0, least_s = 0;
};

// Of steps that all ranks begin together: the time in which a call of the step was under way, of the slowest rank.
// Collective.
StepTime time_step(Communicator& comm, train::Strategy& strategy, const IdleModel& model, const StepRounds& rounds);

// Ranks that wait for each other by turns may share a core for long while another one idles; those that compute do not.
// Lets them compute for a moment. Collective.
void spread_over_cores(Communicator& comm);

// Steps of models of a few buckets, or units, of all sizes, by each stage of ZeRO; `quick`: few, in a moment. `say`
// hears how far it is, 0 to 1. Collective, among ranks of one host, which are not to be pinned: the progress threads of
// a training job that is not have cores of their own where there are enough.
std::vector<topology::MeasuredStep> measure_steps(Communicator& comm, const std::function<void(double)>& say,
                                                  bool quick);

}  // namespace tutti::tools
