// A plan: what a job says, what that costs, and what to make of it. All a function of the job: nothing is run.
//
//   plan::JobPlan plan = plan::plan_job(job, prices);
//   plan.sentence    every verb: on what, how many bytes, how often, among whom, on which links, hidden or exposed
//   plan.bill        memory by kind, operations, seconds by cause, tokens per second, gamma
//   plan.fits
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "plan/collectives.h"
#include "plan/job.h"
#include "tutti/train/report.h"

namespace tutti::plan {

// A verb of the sentence of one rank, all its calls in a step together.
struct JobPhrase {
  Verb verb = Verb::all_reduce;
  std::string what;
  std::string group;  // tp, pp, dp, ...
  GroupSpan span;
  std::string links;
  double bytes = 0;  // of a call, as Counters count them
  double times = 1;  // in a step
  std::string_view algorithm;
  double call_s = 0;     // one call
  double exposed_s = 0;  // of all calls in a step: what nothing hides
  double every = 1;      // it is said in one of so many steps
  double sent = 1;       // share of messages that go out from here; the others come in

  double total_s() const { return call_s * times / every; }
  double total_bytes() const { return bytes * times / every; }
};

// Bytes on the device that has the most.
struct MemoryBill {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, working = 0, reserved = 0;
  double capacity = 0;

  double sum() const { return parameters + gradients + optimizer + activations + working + reserved; }
};

// Seconds of a step by what they go to; they add up to the step.
struct TimeBill {
  double products = 0, attention = 0, pointwise = 0, again = 0;  // of the busiest stage; again: recomputed
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;                 // exposed communication
  double contention = 0;                                         // with the communication that is hidden
  double bubble = 0, optimizer = 0;

  double computing() const { return products + attention + pointwise + again; }
  double exposed() const { return tp + cp + ep + pp + dp; }
  double sum() const { return computing() + exposed() + contention + bubble + optimizer; }
};

struct StagePlan {
  int layers = 0;
  double forward_s = 0, backward_s = 0;  // of one micro-batch, with exposed communication
  double parameters = 0;                 // on a rank
  double memory_bytes = 0;
};

struct JobPlan {
  Job job;
  std::vector<JobPhrase> sentence;
  MemoryBill memory;
  TimeBill time;
  std::vector<StagePlan> stages;
  std::vector<train::BucketTimes> timeline;    // of gradients, from the begin of the last backward
  double backward_us = 0;                      // when that ends
  double model_flops = 0, hardware_flops = 0;  // of a step, all devices together
  double parameters = 0;
  double communication_s = 0;  // all of it, hidden or not

  double step_s() const { return time.sum(); }
  double tokens_per_s() const { return static_cast<double>(job.global_batch) * job.sequence / step_s(); }
  double model_flops_per_device() const { return model_flops / step_s() / job.devices(); }
  double hardware_flops_per_device() const { return hardware_flops / step_s() / job.devices(); }
  double mfu() const { return model_flops_per_device() / job.accelerator.flops_per_s; }
  bool fits() const { return memory.sum() <= memory.capacity; }
  double missing_bytes() const { return std::max(0.0, memory.sum() - memory.capacity); }
  double gamma_raw() const { return communication_s / time.computing(); }
  double gamma_exposed() const { return time.exposed() / time.computing(); }
  // Tokens until the same loss over those of small batches: 1 + batch / critical, where the critical batch is known.
  double tokens_factor() const { return tokens_factor(job.global_batch); }
  double tokens_needed() const { return job.tokens * tokens_factor(); }
  double steps() const { return tokens_needed() / (static_cast<double>(job.global_batch) * job.sequence); }
  double device_hours() const { return tokens_needed() / tokens_per_s() * job.devices() / 3600; }
  // Steps until the same loss over those with batches of `batch`: fewer, but from the critical batch on hardly any. The
  // learning rate grows as they fall: in proportion to small batches.
  double steps_over(double batch) const { return tokens_factor() / tokens_factor(batch) * batch / job.global_batch; }
  double learning_rate_over(double batch) const { return 1 / steps_over(batch); }

  double tokens_factor(double batch) const { return job.critical_batch > 0 ? 1 + batch / job.critical_batch : 1; }
};

// Of the job's cluster and stack, or of its host.
CollectivePrices prices_for(const Job& job);

// The job must be possible. `prices` of its cluster, accelerator and stack, kept between plans.
JobPlan plan_job(const Job& job, CollectivePrices& prices);
// The same of a model that was counted before, for the job's tp and ep.
JobPlan plan_job(const Job& job, CollectivePrices& prices, const CountedModel& counted);

// The bytes that a rank of a stage has, by kind.
MemoryBill memory_of(const Job& job, int stage, int layers, double parameters, double expert_parameters);
// Layers of each stage: as even as they come, fewer on the last ones and on the first, which have more besides.
std::vector<int> layers_of_stages(const Job& job);

}  // namespace tutti::plan
