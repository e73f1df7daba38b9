// The ratio of communication to computation in a data-parallel step, by its two halves:
//
//   compute    = 6 P b / R                    2 floating-point operations per parameter and example forward, 4 backward
//   all-reduce = 2 (K - 1) / K g P / B        and 2 (K - 1) alpha more where latency counts
//   gamma      = all-reduce / compute         P cancels, but for latency; 1 is the break-even
//
// Strong scaling keeps the global batch, so that b = G / K; weak scaling keeps b. Examples of several tokens compute so
// many times as much and send the same: gamma falls with the length of a sequence. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace tutti::plan {

struct GammaSettings {
  double parameters = 7e9;
  double global_batch = 2048;      // examples, of strong scaling
  double local_batch = 32;         // examples, of weak scaling and of the sweep over models
  double tokens_per_example = 1;   // what is computed for each example, over what is for each token
  double flops_per_s = 312e12;     // of a worker
  double bytes_per_s = 600e9;      // of a worker
  double bytes_per_parameter = 2;  // of gradients
  double latency_s = 0;            // of one of the 2 (K - 1) rounds; 0: left out
  // What changes only what is exposed: the share of backward, two thirds of the computing, behind which the all-reduce
  // may hide; bytes over so many; one all-reduce in so many steps.
  double overlap = 1, compress = 1, every = 1;
};

struct GammaRow {
  double workers = 1, local_batch = 0, parameters = 0;
  double compute_s = 0, all_reduce_s = 0, exposed_s = 0;

  double gamma() const { return all_reduce_s / compute_s; }
  double gamma_exposed() const { return exposed_s / compute_s; }
  bool comm_bound() const { return gamma() > 1; }
};

GammaRow strong_scaling(const GammaSettings& settings, double workers);
GammaRow weak_scaling(const GammaSettings& settings, double workers);
// K and b stay, P is this one.
GammaRow model_of(const GammaSettings& settings, double workers, double parameters);

// The number of workers at which gamma is 1, solved; below it the step is bound by computation. None where gamma stays
// below 1 however many workers there are.
std::optional<double> break_even_strong(const GammaSettings& settings);
std::optional<double> break_even_weak(const GammaSettings& settings);

// The model whose all-reduce consists of latency by this share, between 0 and 1; smaller ones by more. The latency must
// be more than 0.
double parameters_where_latency_is(const GammaSettings& settings, double workers, double share);

// Throws Error(invalid_argument) that names the setting and what belongs there.
void require_possible(const GammaSettings& settings);

}  // namespace tutti::plan
