// Rates from measured calls: those with which the predicted times come closest to the measured ones. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "engine/ladder.h"
#include "topology/rates.h"

namespace tutti::engine {

struct Probe {
  const schedule::Algorithm* row = nullptr;
  const Pricer* pricer = nullptr;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Looks for them by steps of shrinking factors, from `start` on, one rate after the other. `say` hears how far it is.
template <class Say>
topology::Rates fit(std::span<const Probe> probes, topology::Rates start, Say&& say);

// How far predictions are off, as a factor: the geometric mean over the probes.
double error_of(std::span<const Probe> probes, const topology::Rates& rates);

// What is lost by running what is predicted to be quickest instead of what is, over each (verb, size) that was probed.
double regret_of(std::span<const Probe> probes, const topology::Rates& rates);

// One round of the search: tries to make each rate larger and smaller by `factor`. Returns whether any came out better.
bool improve(std::span<const Probe> probes, topology::Rates& rates, double& error, double factor);

template <class Say>
topology::Rates fit(std::span<const Probe> probes, topology::Rates start, Say&& say) {
  constexpr double kFactors[] = {4, 2, 1.4, 1.2, 1.1, 1.05};
  constexpr int kRounds = 6;  // with each factor at most
  double error = error_of(probes, start);
  for (std::size_t i = 0; i < std::size(kFactors); ++i) {
    for (int round = 0; round < kRounds; ++round) {
      if (!improve(probes, start, error, kFactors[i])) break;
    }
    say(static_cast<double>(i + 1) / std::size(kFactors));
  }
  return start;
}

}  // namespace tutti::engine
