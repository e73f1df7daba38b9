// One line about how training goes, for the rank that prints.
//
//   if (comm.rank() == 0) std::cout << '\r' << to_text({.step = step, .total_steps = 1000, .seconds = elapsed}, all);
//
//   step 120 of 1000, 12 % | loss 0.3501 | 0.0003 rate | 1.8k examples/s | 1 m 28 s left
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tutti/export.h"
#include "tutti/train/metrics.h"

namespace tutti::train {

// What is not known stays 0, and out of the line.
struct Progress {
  std::int64_t step = 0;         // done
  std::int64_t total_steps = 0;  // of the whole training
  std::int64_t first_step = 0;   // done before this run, which was resumed there
  double seconds = 0;            // that this run has taken
  double examples = 0;           // of all ranks, that this run has seen
  double learning_rate = 0;
};

// With the mean of every metric that has values.
TUTTI_API std::string to_text(const Progress& progress, std::span<const Metric> metrics = {});

}  // namespace tutti::train
