// Rates from measured calls: those with which the predicted times come closest to the measured ones. Pure.
//
// Times are compared by their logarithms, so that twice too long counts as much as half, and a call of a microsecond as
// much as one of a millisecond. Calls that are far off while most are not count little: something else ran on the
// machine just then. What the calls say nothing about stays as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "choice/pricer.h"
#include "topology/rates.h"

namespace tutti::choice {

struct TimedCall {
  const schedule::Algorithm* row = nullptr;
  const Pricer* pricer = nullptr;
  std::uint64_t bytes = 0;
  double seconds = 0;
  const topology::Rates* inside = nullptr;  // of links inside hosts, where those across are sought

  // What it takes by the rates.
  double predicted(const topology::Rates& rates) const {
    return pricer->at(bytes, topology::LinkRates(inside == nullptr ? rates : *inside, rates));
  }
};

// Looks for them from `start` on; rates that are zero there stay zero. `say` hears how far it is, 0 to 1.
topology::Rates fit(std::span<const TimedCall> calls, const topology::Rates& start,
                    const std::function<void(double)>& say);

// How far predictions are off, as a factor: the geometric mean over the calls.
double error_of(std::span<const TimedCall> calls, const topology::Rates& rates);

// What is lost by running what is predicted to be quickest instead of what is, over each (verb, size) that was timed.
double regret_of(std::span<const TimedCall> calls, const topology::Rates& rates);

// What the survey's rates leave unexplained: for every algorithm that was timed, by size. Sizes that were not take the
// nearest smaller one's.
void survey_factors(std::span<const TimedCall> calls, topology::Survey& survey);

}  // namespace tutti::choice
