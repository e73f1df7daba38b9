// A row of results, and the arithmetic behind it: nccl-tests' bandwidths, medians and spread. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/driver/protocol.h"

namespace tutti::bench {

// Of the rounds of one cell.
struct Timing {
  double median_us = 0;
  double min_us = 0;
  double spread = 0;  // half the distance between the quartiles, as a part of the median
  int rounds = 0;
};

// `us` holds at least one number.
Timing timing_of(std::vector<double> us);
double median_of(std::vector<double> numbers);

struct Row {
  std::string impl;
  Cell cell;
  int ranks = 0;
  std::string transport;
  Timing timing;
  std::optional<std::uint64_t> wrong;  // elements on all ranks; nothing where it was not checked
  std::string algorithm;               // empty where nobody knows
  std::optional<double> predicted_us;  // nothing where it does not say
  bool forced = false;                 // the algorithm was asked for by name
  bool on_device = false;              // buffers lay on a GPU

  // S of nccl-tests: the vector, or all chunks of it.
  std::uint64_t bytes() const;
  // GB/s, of 1e9 bytes; 0 for a barrier.
  double algbw() const;
  double busbw() const;
  // "tutti", and "tutti:ring" where the algorithm was asked for by name.
  std::string name() const { return forced ? impl + ":" + cell.algorithm : impl; }
  const char* buffers() const { return on_device ? "device" : cell.symmetric ? "symmetric" : "ordinary"; }
};

// Elements of a cell whose S is nearest below `bytes`, and at least one.
std::uint64_t count_for(Verb verb, DType type, int ranks, std::uint64_t bytes);

}  // namespace tutti::bench
