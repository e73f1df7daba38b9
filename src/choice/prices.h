// What a communicator has agreed on to price its calls with: the rates of its links, and what these leave unexplained
// about each algorithm where it was timed. Plain data, so that rank 0 can send it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/offers.h"
#include "schedule/algorithms/table.h"
#include "topology/device_rates.h"
#include "topology/rates.h"

namespace tutti::choice {

struct Prices {
  Prices() : Prices(topology::Rates()) {}
  Prices(const topology::Rates& machine);  // NOLINT: rates are prices, of algorithms that nobody has timed

  // How many times as long calls of the algorithm take as the rates say, at a size of the surveys.
  double factor(const schedule::Algorithm& row, std::size_t size) const;

  topology::LinkRates rates;
  topology::DeviceRates device;  // what calls on device memory take besides, where that is known
  float factors[schedule::kMostAlgorithms][topology::kSurveySizes];  // by row of the table of algorithms
};

// Between ranks that share memory, and between ranks that have streams only.
struct AgreedCosts {
  Prices memory, streams;
  bool tuned = false;  // measured here, by `tutti tune`; else built in
  bool wired = false;  // of a group over several hosts: the wire between them was measured
};

// What lies between two hosts, as their ranks found it.
struct Wire {
  double seconds_per_byte = 0;  // both ways at once
  double message = 0;           // seconds for a message of a few bytes, from one program to the other
};

// Hosts with such a wire between them. Where ranks by themselves can send no faster, it may be quicker; and what a host
// takes to send to itself, which is what was known so far, another one is no nearer than.
void put_wire(AgreedCosts& costs, const Wire& wire);

// What calls of a group cost that has these links: memory, streams, or the one inside hosts and the other across. There
// the streams take most of the time, so it is their timings that say what the rates leave unexplained.
Prices prices_of(const AgreedCosts& costs, const Offers& offers);

// What holds for a group of so many ranks: the survey of a group like it, where there is one.
AgreedCosts agreed_costs(const topology::CostTable& table, int ranks, int hosts, bool tuned);

// "broadcast/binomial": how surveys name an algorithm.
std::string survey_name(const schedule::Algorithm& row);

}  // namespace tutti::choice
